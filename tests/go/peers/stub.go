package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A stub serves the list and the watch of many pods over TLS or plain HTTP, in JSON and protobuf.
type stub struct {
	pods, events, batch int
	pace                float64
	stream              bool
	json, proto         *podMaker
}

// serveStub runs the stub until it is killed. It prints its URL and the path of its CA, which is empty without TLS.
func serveStub(arguments []string) error {
	flags := flag.NewFlagSet("stub", flag.ExitOnError)
	s := &stub{}
	flags.IntVar(&s.pods, "pods", 10_000, "the number of pods")
	flags.IntVar(&s.events, "events", 0, "the number of modifications after the list")
	flags.IntVar(&s.batch, "batch", 1, "the number of events that are written at once")
	flags.Float64Var(&s.pace, "pace", 0, "events per second; 0: as fast as the client reads")
	flags.BoolVar(&s.stream, "stream", false, "have streaming lists; else they are refused, and lists come in pages")
	ca := flags.String("ca", "", "serve over TLS, and write the certificate to this file")
	_ = flags.Parse(arguments)
	s.json, s.proto = newPodMaker(false), newPodMaker(true)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	scheme := "http"
	if *ca != "" {
		config, certificate, err := serverTLS()
		if err != nil {
			return err
		}
		if err := os.WriteFile(*ca, certificate, 0o600); err != nil {
			return err
		}
		listener, scheme = tls.NewListener(listener, config), "https"
	}
	fmt.Printf("%s://%s\n", scheme, listener.Addr())
	server := &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	return server.Serve(listener)
}

// serverTLS returns the configuration of a server with a new certificate, and that certificate as PEM.
func serverTLS() (*tls.Config, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stub"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	certificate := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	return config, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// patched is the metadata of every object that the stub is asked to patch.
var patched = map[string]any{"name": "patched", "namespace": "default", "resourceVersion": "1"}

// ServeHTTP answers discovery, the list and watch of pods, and each PATCH at once.
func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPatch:
		answer(w, http.StatusOK, map[string]any{"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": patched})
	case r.URL.Path == "/api":
		answer(w, http.StatusOK, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
	case r.URL.Path == "/apis":
		answer(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}})
	case r.URL.Path == "/api/v1":
		pods := map[string]any{"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": []string{"get", "list", "watch"}}
		answer(w, http.StatusOK, map[string]any{"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{pods}})
	case r.URL.Path != "/api/v1/pods":
		refuse(w, http.StatusNotFound, "NotFound", "this server has only pods")
	case query.Get("sendInitialEvents") == "true" && !s.stream:
		refuse(w, http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
	case query.Get("watch") == "1" || strings.EqualFold(query.Get("watch"), "true"):
		s.watch(w, r)
	default:
		s.list(w, r)
	}
}

func answer(w http.ResponseWriter, code int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	answer(w, code, map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
	})
}

// maker returns the pods in the encoding that the client prefers, and its media type.
func (s *stub) maker(r *http.Request) (*podMaker, string) {
	if strings.HasPrefix(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf") {
		return s.proto, "application/vnd.kubernetes.protobuf"
	}
	return s.json, "application/json"
}

func (s *stub) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	start, _ := strconv.Atoi(query.Get("continue"))
	stop := s.pods
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 {
		stop = min(start+limit, s.pods)
	}
	next, left := "", s.pods-stop
	if left > 0 {
		next = strconv.Itoa(stop)
	}
	maker, media := s.maker(r)
	w.Header().Set("Content-Type", media)
	var head, tail []byte
	item := func(out []byte, number int) []byte { return maker.add(out, number, firstRevision-s.pods+number) }
	if maker == s.proto {
		meta := addField(nil, 2, []byte(strconv.Itoa(firstRevision)))
		meta = addField(meta, 3, []byte(next))
		if left > 0 {
			meta = protowire.AppendVarint(protowire.AppendTag(meta, 4, protowire.VarintType), uint64(left))
		}
		content := addField(nil, 1, meta)
		length := len(content)
		for number := start; number < stop; number++ {
			length += 1 + protowire.SizeBytes(maker.length(number))
		}
		head = append(addEnvelope(nil, "PodList", length), content...)
		add := item
		item = func(out []byte, number int) []byte {
			out = protowire.AppendVarint(protowire.AppendTag(out, 2, protowire.BytesType), uint64(maker.length(number)))
			return add(out, number)
		}
	} else {
		meta := map[string]any{"resourceVersion": strconv.Itoa(firstRevision)}
		if left > 0 {
			meta["continue"], meta["remainingItemCount"] = next, left
		}
		text, _ := json.Marshal(meta)
		head, tail = fmt.Appendf(nil, `{"kind":"PodList","apiVersion":"v1","metadata":%s,"items":[`, text), []byte("]}")
		add := item
		item = func(out []byte, number int) []byte {
			if number > start {
				out = append(out, ',')
			}
			return add(out, number)
		}
	}
	out := head
	for number := start; number < stop; number++ {
		if out = item(out, number); len(out) > 128<<10 {
			if _, err := w.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
	}
	_, _ = w.Write(append(out, tail...))
}

// watch sends the pods if the client asks for them, the modifications, and then nothing until the client goes.
func (s *stub) watch(w http.ResponseWriter, r *http.Request) {
	maker, media := s.maker(r)
	if maker == s.proto {
		media += ";stream=watch"
	}
	w.Header().Set("Content-Type", media)
	flusher, _ := w.(http.Flusher)
	flusher.Flush()
	revision, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	var out []byte
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for number := range s.pods {
			out = maker.addEvent(out, "ADDED", number, firstRevision-s.pods+number)
			if _, err := w.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
		_, _ = w.Write(maker.bookmark())
		flusher.Flush()
		revision = firstRevision
	}
	begun := time.Now().Add(time.Second)
	for step := max(0, revision-firstRevision); step < s.events; step++ {
		if s.pace > 0 {
			time.Sleep(time.Until(begun.Add(time.Duration(float64(step) / s.pace * float64(time.Second)))))
		}
		number, next := step%s.pods, firstRevision+1+step
		out = maker.addEvent(out, "MODIFIED", number, next)
		if s.pace > 0 {
			tail := maker.length(number)
			if maker == s.json {
				tail += 2
			}
			maker.stamp(out[len(out)-tail:], number)
		}
		if (step+1)%s.batch == 0 || step+1 == s.events {
			if _, err := w.Write(out); err != nil {
				return
			}
			flusher.Flush()
			out = out[:0]
		}
	}
	<-r.Context().Done()
}
