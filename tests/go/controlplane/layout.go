package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// layout is the content of a control plane's directory besides etcd's data.
type layout struct {
	dir        string
	ServerPort int    `json:"serverPort"`
	ClientPort int    `json:"etcdClientPort"`
	PeerPort   int    `json:"etcdPeerPort"`
	AdminToken string `json:"adminToken"`
	UserToken  string `json:"userToken"`
}

func (l *layout) path(name string) string { return filepath.Join(l.dir, name) }
func (l *layout) url() string             { return fmt.Sprintf("https://127.0.0.1:%d", l.ServerPort) }
func (l *layout) etcdURL() string         { return fmt.Sprintf("http://127.0.0.1:%d", l.ClientPort) }
func (l *layout) kubeconfig() string      { return l.path("kubeconfig") }
func (l *layout) signingKey() string      { return l.path("service-account.key") }
func (l *layout) tokens() string          { return l.path("tokens.csv") }
func (l *layout) auditPolicy() string     { return l.path("audit-policy.yaml") }
func (l *layout) certificates() string    { return l.path("certificates") }
func (l *layout) certificate() string     { return filepath.Join(l.certificates(), "apiserver.crt") }

// open reads the layout of dir, or creates one with free ports and new secrets.
func open(dir string) (*layout, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	l := &layout{dir: dir}
	text, err := os.ReadFile(l.path("layout.json"))
	if err == nil {
		return l, json.Unmarshal(text, l)
	}
	if !os.IsNotExist(err) {
		return nil, err
	}
	return l, l.create()
}

func (l *layout) create() error {
	if err := os.MkdirAll(l.certificates(), 0o700); err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	l.ServerPort, l.ClientPort, l.PeerPort = ports[0], ports[1], ports[2]
	l.AdminToken, l.UserToken = secret(), secret()
	tokens := fmt.Sprintf("%s,admin,admin,system:masters\n%s,limited,limited,\n", l.AdminToken, l.UserToken)
	if err := os.WriteFile(l.tokens(), []byte(tokens), 0o600); err != nil {
		return err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(l.signingKey(), pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return os.WriteFile(l.path("layout.json"), text, 0o600)
}

// writeKubeconfig writes the administrator's credentials, with the server's certificate as the authority.
func (l *layout) writeKubeconfig() error {
	certificate, err := os.ReadFile(l.certificate())
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "%s", certificate-authority-data: %s}}]
users: [{name: admin, user: {token: %s}}, {name: limited, user: {token: %s}}]
contexts: [{name: test, context: {cluster: test, user: admin}}, {name: limited, context: {cluster: test, user: limited}}]
`, l.url(), base64.StdEncoding.EncodeToString(certificate), l.AdminToken, l.UserToken)
	return os.WriteFile(l.kubeconfig(), []byte(text), 0o600)
}

func secret() string {
	bytes := make([]byte, 24)
	_, _ = rand.Read(bytes)
	return base64.RawURLEncoding.EncodeToString(bytes)
}

// freePorts requests unused ports from the kernel, and holds all of them open until it has the last one.
func freePorts(count int) ([]int, error) {
	ports := make([]int, 0, count)
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
