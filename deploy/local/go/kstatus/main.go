// Reads JSON objects from standard input and prints for each what Flux would say of it: by the healthCheckExprs of the Kustomization
// in the file that is its argument, if they have the object's kind, else by kstatus.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

type kustomization struct {
	Spec struct {
		HealthCheckExprs []kustomize.CustomHealthCheck `json:"healthCheckExprs"`
	} `json:"spec"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kstatus:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
	var read kustomization
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(content, &read); err != nil {
			return err
		}
	}
	decoder := json.NewDecoder(os.Stdin)
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = tell(raw, read.Spec.HealthCheckExprs)
		}
		if err != nil {
			return err
		}
	}
}

func tell(raw []byte, checks []kustomize.CustomHealthCheck) error {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return err
	}
	result, err := compute(object, checks)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]string{
		"status": result.Status.String(), "message": result.Message,
	})
}

func compute(object *unstructured.Unstructured, checks []kustomize.CustomHealthCheck) (*status.Result, error) {
	for _, check := range checks {
		if check.APIVersion == object.GetAPIVersion() && check.Kind == object.GetKind() {
			evaluator, err := cel.NewStatusEvaluator(&check.HealthCheckExpressions)
			if err != nil {
				return nil, err
			}
			return evaluator.Evaluate(context.Background(), object)
		}
	}
	return status.Compute(object)
}
