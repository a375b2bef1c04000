// Command clients runs the same steps with client-go and controller-runtime on any API server, for tests that compare two.
//
//	clients typed KUBECONFIG NAMESPACE            typed clients that ask for protobuf: create, read, patch, status, scale, delete
//	clients dynamic KUBECONFIG NAMESPACE          the dynamic and the metadata client
//	clients apply KUBECONFIG NAMESPACE            server-side apply with typed apply configurations, conflicts and ownership
//	clients informer KUBECONFIG NAMESPACE COUNT   an informer over COUNT creates, updates and deletes; it may read with another kubeconfig, or from unix:PATH
//	clients election KUBECONFIG NAMESPACE         two candidates for one Lease, the first releases it
//	clients manager KUBECONFIG NAMESPACE          a controller-runtime manager: cache, status writes, election; start, stop, start
//	clients envtest KUBECONFIG NAMESPACE          the control plane that envtest starts from KUBEBUILDER_ASSETS
//
// Each prints one JSON array on standard output: its steps and their answers, in order.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

const limit = 90 * time.Second

// run is one program's state: its clients, its namespace, its answers so far.
type run struct {
	ctx       context.Context
	config    *rest.Config
	namespace string
	arguments []string
	steps     []step
}

type step struct {
	Step   string `json:"step"`
	Answer any    `json:"answer"`
}

// note records the result of a step: the error if there is one, else the answer.
func (r *run) note(name string, answer any, err error) {
	if err != nil {
		answer = describe(err)
	}
	r.steps = append(r.steps, step{name, answer})
}

func main() {
	programs := map[string]func(*run) error{
		"typed": typed, "dynamic": dynamicAndMetadata, "apply": apply,
		"informer": informer, "election": election, "manager": manager, "envtest": control,
	}
	if len(os.Args) < 4 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: clients typed|dynamic|apply|informer|election|manager|envtest KUBECONFIG NAMESPACE [COUNT [KUBECONFIG | unix:PATH]]")
		os.Exit(2)
	}
	ctrl.SetLogger(klog.Background())
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[2])
	if err == nil {
		config.QPS = -1
		r := &run{ctx: ctx, config: config, namespace: os.Args[3], arguments: os.Args[4:]}
		err = programs[os.Args[1]](r)
		_ = json.NewEncoder(os.Stdout).Encode(r.steps)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
