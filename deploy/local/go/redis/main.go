// A Redis in memory on the address that is its argument, for an Argo CD under test. It ends with its standard input.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "miniredis: give the address to listen on")
		os.Exit(2)
	}
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "miniredis:", err)
		os.Exit(1)
	}
	go func() { // its clock stands still by itself, and nothing would ever expire
		for range time.Tick(time.Second) {
			server.FastForward(time.Second)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}
