package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// sizes denies a ConfigMap that is large.
type sizes struct{}

func (sizes) ValidateCreate(_ context.Context, obj *v1.ConfigMap) (admission.Warnings, error) {
	if obj.Data["size"] == "large" {
		return nil, fmt.Errorf("must be small")
	}
	return nil, nil
}

func (s sizes) ValidateUpdate(ctx context.Context, _, obj *v1.ConfigMap) (admission.Warnings, error) {
	return s.ValidateCreate(ctx, obj)
}

func (sizes) ValidateDelete(context.Context, *v1.ConfigMap) (admission.Warnings, error) { return nil, nil }

// serveWebhook runs controller-runtime's webhook server until it is killed.
func serveWebhook(arguments []string) error {
	flags := flag.NewFlagSet("webhook", flag.ExitOnError)
	port := flags.Int("port", 9443, "the port on loopback")
	folder := flags.String("certificates", "", "the folder with tls.crt and tls.key")
	_ = flags.Parse(arguments)
	ctrl.SetLogger(logr.Discard())
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: *port, CertDir: *folder})
	server.Register("/validate", admission.WithValidator[*v1.ConfigMap](scheme.Scheme, sizes{}))
	return server.Start(context.Background())
}

// admissionFigures has clients send the review in a file at a pace, or as fast as they are answered without one.
func admissionFigures(arguments []string) (map[string]float64, error) {
	flags := flag.NewFlagSet("admissions", flag.ExitOnError)
	url := flags.String("url", "", "the address of the webhook")
	ca := flags.String("ca", "", "the file with the CA")
	file := flags.String("review", "", "the file with the review")
	clients := flags.Int("clients", 16, "the number of clients, each with a connection")
	pace := flags.Float64("pace", 0, "reviews per second of all clients together; 0: no pause")
	seconds := flags.Float64("seconds", 10, "how long they send")
	_ = flags.Parse(arguments)
	body, err := os.ReadFile(*file)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(*ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	var lock sync.Mutex
	var taken []float64
	var failure error
	var group sync.WaitGroup
	start := time.Now()
	end := start.Add(time.Duration(*seconds * float64(time.Second)))
	for number := range *clients {
		group.Add(1)
		go func() {
			defer group.Done()
			own, err := sendReviews(*url, roots, body, start, end, number, *clients, *pace)
			lock.Lock()
			defer lock.Unlock()
			taken = append(taken, own...)
			if err != nil {
				failure = err
			}
		}()
	}
	group.Wait()
	if failure != nil {
		return nil, failure
	}
	sort.Float64s(taken)
	return map[string]float64{
		"rate": float64(len(taken)) / time.Since(start).Seconds(),
		"p50":  taken[len(taken)/2],
		"p99":  taken[len(taken)*99/100],
	}, nil
}

// sendReviews returns the seconds that each answer took, from the moment when the review was due.
func sendReviews(
	url string, roots *x509.CertPool, body []byte, start, end time.Time, number, clients int, pace float64,
) ([]float64, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	var taken []float64
	for count := 0; ; count++ {
		due := time.Now()
		if pace > 0 {
			due = start.Add(time.Duration(float64(count*clients+number) / pace * float64(time.Second)))
			time.Sleep(time.Until(due))
		}
		if due.After(end) || time.Now().After(end) {
			return taken, nil
		}
		response, err := client.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			return taken, err
		}
		answer, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return taken, err
		}
		if response.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"allowed":true`)) {
			return taken, fmt.Errorf("status %d: %s", response.StatusCode, answer)
		}
		taken = append(taken, time.Since(due).Seconds())
	}
}
