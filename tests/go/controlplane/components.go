package main

import (
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"os"
)

// The controllers that the tests need; without nodes and a cloud the others only log errors. The garbage collector runs
// beside them.
const controllers = "namespace-controller,statefulset-controller,deployment-controller," +
	"replicaset-controller,daemonset-controller,serviceaccount-controller,endpointslice-controller," +
	"job-controller,cronjob-controller,ttl-after-finished-controller,disruption-controller," +
	"root-ca-certificate-publisher-controller"

func runControllers(dir string) error {
	l, err := open(dir)
	if err != nil {
		return err
	}
	if err := startGarbageCollector(l.kubeconfig()); err != nil {
		return err
	}
	command := controllermanager.NewControllerManagerCommand()
	command.SetArgs([]string{
		"--kubeconfig=" + l.kubeconfig(),
		"--authentication-kubeconfig=" + l.kubeconfig(),
		"--authorization-kubeconfig=" + l.kubeconfig(),
		"--leader-elect=false",
		"--secure-port=0",
		"--service-account-private-key-file=" + l.signingKey(),
		"--root-ca-file=" + l.certificate(),
		"--controllers=" + controllers,
	})
	return command.Execute()
}

func runKubectl(arguments []string) error {
	os.Args = append([]string{"kubectl"}, arguments...)
	command := kubectl.NewDefaultKubectlCommand()
	return cli.RunNoErrOutput(command)
}
