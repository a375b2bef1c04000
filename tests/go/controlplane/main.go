// Command controlplane runs a real kube-apiserver with an embedded etcd, for tests.
//
//	controlplane serve DIR [FLAG]...   etcd and kube-apiserver on loopback; the ports, keys and data stay in DIR
//	controlplane controllers DIR       kube-controller-manager against the server of DIR
//	controlplane compact DIR           compact etcd up to its newest revision, so that older versions expire
//	controlplane kubectl …             kubectl of the same release
//
// serve prints one line of JSON on standard output once the server is ready. A restart on the same DIR uses the
// same ports and data, so a test can kill and restart it. With an audit-policy.yaml in DIR it writes an audit.log.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	command, rest := os.Args[1], os.Args[2:]
	var err error
	switch {
	case command == "kubectl":
		err = runKubectl(rest)
	case command == "serve" && len(rest) > 0:
		err = serve(rest[0], rest[1:])
	case len(rest) != 1:
		usage()
	case command == "controllers":
		err = runControllers(rest[0])
	case command == "compact":
		err = compact(rest[0])
	default:
		usage()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: controlplane serve DIR [FLAG]..., controlplane controllers|compact DIR, or controlplane kubectl …")
	os.Exit(2)
}
