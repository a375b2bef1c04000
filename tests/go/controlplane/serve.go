package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

const startLimit = 2 * time.Minute

// serve runs etcd and kube-apiserver until the process is stopped; flags are further ones of kube-apiserver.
func serve(dir string, flags []string) error {
	l, err := open(dir)
	if err != nil {
		return err
	}
	etcd, err := startEtcd(l)
	if err != nil {
		return err
	}
	defer etcd.Close()

	go announce(l)
	command := app.NewAPIServerCommand()
	arguments := append([]string{
		"--etcd-servers=" + l.etcdURL(),
		fmt.Sprintf("--secure-port=%d", l.ServerPort),
		"--bind-address=127.0.0.1",
		"--cert-dir=" + l.certificates(),
		"--token-auth-file=" + l.tokens(),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.signingKey(),
		"--service-account-signing-key-file=" + l.signingKey(),
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--disable-admission-plugins=ServiceAccount",
	}, auditArguments(l)...)
	command.SetArgs(append(arguments, flags...))
	return command.Execute()
}

// auditArguments turns on audit.log if a test has written an audit policy beside it.
// The server writes the log before it answers, so a client with the answer finds its request in the log.
func auditArguments(l *layout) []string {
	if _, err := os.Stat(l.auditPolicy()); err != nil {
		return nil
	}
	return []string{
		"--audit-policy-file=" + l.auditPolicy(),
		"--audit-log-path=" + l.path("audit.log"),
		"--audit-log-mode=blocking",
	}
}

func startEtcd(l *layout) (*embed.Etcd, error) {
	client := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", l.ClientPort)}
	peer := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", l.PeerPort)}
	config := embed.NewConfig()
	config.Dir = l.path("etcd")
	config.LogLevel = "error"
	config.UnsafeNoFsync = true
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case <-time.After(startLimit):
		etcd.Close()
		return nil, errors.New("etcd did not become ready")
	}
}

// announce waits for /readyz, writes the kubeconfig and prints its path on standard output.
func announce(l *layout) {
	// Only this loop skips verification: it reads readiness before the certificate is known.
	client := &http.Client{
		Timeout:   time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		answer, err := client.Get(l.url() + "/readyz")
		if err != nil {
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			continue
		}
		if err := l.writeKubeconfig(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		line, _ := json.Marshal(map[string]string{"url": l.url(), "kubeconfig": l.kubeconfig()})
		fmt.Println(string(line))
		return
	}
	fmt.Fprintln(os.Stderr, "error: kube-apiserver did not become ready")
	os.Exit(1)
}

// compact makes every resource version before the newest one expire.
func compact(dir string) error {
	l, err := open(dir)
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{l.etcdURL()}, DialTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := client.Get(ctx, "compact")
	if err != nil {
		return err
	}
	_, err = client.Compact(ctx, answer.Header.Revision, clientv3.WithCompactPhysical())
	return err
}
