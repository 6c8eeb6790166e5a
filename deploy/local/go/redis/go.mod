module modelfleet.dev/local/redis

go 1.27.0

require github.com/alicebob/miniredis/v2 v2.39.0

require github.com/yuin/gopher-lua v1.1.1 // indirect
