// Command peers measures client-go and controller-runtime on the same jobs as the benches in benches/.
//
//	peers queue [FIGURE]         work queue: cycle, cycle with metrics, burst, priority burst, contention; or one of them
//	peers fifo                   delta FIFO: add + update + pop
//	peers informer URL EVENTS    initial list of pods, then EVENTS watch events, through a shared informer into a queue;
//	         [CA [json]]         over TLS in protobuf, or in JSON
//	peers controller KUBECONFIG  a controller-runtime manager that reconciles each pod once
//	peers reconciles             no-op reconciles through a controller-runtime controller of four workers
//	peers webhook FLAGS          serve a validator of ConfigMaps with controller-runtime's webhook server
//	peers admissions FLAGS       send reviews to a webhook, at a pace or as fast as they are answered
//	peers stub [FLAGS]           serve many pods over TLS or plain HTTP, in JSON and protobuf; prints its URL
//
// Each prints one JSON object of figures: seconds per operation, or the unit in the name.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
)

const rounds = 5

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	var figures map[string]float64
	var err error
	switch {
	case os.Args[1] == "queue" && len(os.Args) <= 3:
		figures, err = queueFigures(os.Args[2:]...)
	case os.Args[1] == "stub":
		err = serveStub(os.Args[2:])
	case os.Args[1] == "webhook":
		err = serveWebhook(os.Args[2:])
	case os.Args[1] == "admissions":
		figures, err = admissionFigures(os.Args[2:])
	case os.Args[1] == "reconciles" && len(os.Args) == 2:
		figures, err = reconcileFigures()
	case os.Args[1] == "fifo" && len(os.Args) == 2:
		figures = fifoFigures()
	case os.Args[1] == "informer" && len(os.Args) >= 4 && len(os.Args) <= 6:
		figures, err = informerFigures(os.Args[2], os.Args[3], os.Args[4:]...)
	case os.Args[1] == "controller" && len(os.Args) == 3:
		figures, err = controllerFigures(os.Args[2])
	default:
		usage()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(figures)
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: peers queue [FIGURE] | fifo | informer URL EVENTS [CA [json]] | controller KUBECONFIG | reconciles | webhook | admissions | stub")
	os.Exit(2)
}

// median runs a measurement several times and returns the median.
func median(measure func() float64) float64 {
	results := make([]float64, rounds)
	for i := range results {
		results[i] = measure()
	}
	sort.Float64s(results)
	return results[rounds/2]
}
