package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// firstRevision is the resource version of the first list; seven digits, as all versions of the stub have.
const firstRevision = 5_000_000

// templates is the number of pods that are encoded as a whole; the others differ from one of them in places.
const templates = 970

// A value differs in each pod, with the same number of digits: where it is in an encoded template.
type value struct {
	text, digits string
	at           []int
}

// A template is an encoded pod with the places in which pods differ.
type template struct {
	encoded  []byte
	values   []value
	revision int
	sent     int
}

// podMaker makes pods as a cluster has them, fast: it copies templates and overwrites names, ids and versions.
type podMaker struct {
	proto     bool
	templates []template
}

// unsent is the annotation `sent` of a pod without a time: nanoseconds of the monotonic clock.
const unsent = "0000000000000000000"

const hex, base36 = "0123456789abcdef", "0123456789abcdefghijklmnopqrstuvwxyz"

// newPodMaker encodes the templates, as JSON or protobuf.
func newPodMaker(proto bool) *podMaker {
	maker := &podMaker{proto: proto}
	for number := range templates {
		pod, values := templatePod(number)
		var encoded []byte
		if proto {
			encoded, _ = pod.Marshal()
		} else {
			encoded, _ = json.Marshal(pod)
		}
		one := template{
			encoded: encoded, values: values,
			revision: bytes.Index(encoded, []byte("7777777")), sent: bytes.Index(encoded, []byte(unsent)),
		}
		for i := range one.values {
			one.values[i].find(encoded)
		}
		maker.templates = append(maker.templates, one)
	}
	return maker
}

// find notes all places of the value.
func (v *value) find(encoded []byte) {
	for from := 0; ; from += len(v.text) {
		found := bytes.Index(encoded[from:], []byte(v.text))
		if found < 0 {
			return
		}
		from += found
		v.at = append(v.at, from)
	}
}

// length returns the encoded length of pod `number`.
func (m *podMaker) length(number int) int {
	return len(m.templates[number%templates].encoded)
}

// add appends pod `number` at a resource version.
func (m *podMaker) add(out []byte, number, revision int) []byte {
	one := m.templates[number%templates]
	start := len(out)
	out = append(out, one.encoded...)
	pod := out[start:]
	state := uint64(number)*0x9E3779B97F4A7C15 + 1
	var text [64]byte
	for _, value := range one.values {
		for i := range value.text {
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
			text[i] = value.digits[state%uint64(len(value.digits))]
		}
		for _, at := range value.at {
			copy(pod[at:], text[:len(value.text)])
		}
	}
	copy(pod[one.revision:], strconv.Itoa(revision))
	return out
}

// stamp writes the present time into pod `number`, which begins at `pod`.
func (m *podMaker) stamp(pod []byte, number int) {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	copy(pod[m.templates[number%templates].sent:], fmt.Sprintf("%019d", now.Nano()))
}

// templatePod returns a pod of about 5 KB of JSON, and the values in it that differ in each pod.
func templatePod(number int) (*v1.Pod, []value) {
	rng := rand.New(rand.NewSource(int64(number)))
	var values []value
	marker := func(length int, digits string) string {
		text := make([]byte, length)
		for i := range text {
			text[i] = digits[rng.Intn(len(digits))]
		}
		values = append(values, value{text: string(text), digits: digits})
		return string(text)
	}
	uid := func() types.UID { return types.UID(marker(8, hex) + "-0000-4000-8000-" + marker(12, hex)) }
	app, team := fmt.Sprintf("app-%d", number%97), fmt.Sprintf("team-%d", number%40)
	created := metav1.NewTime(time.Date(2026, time.Month(1+rng.Intn(11)), 1+rng.Intn(27), rng.Intn(24), number%60, 0, 0, time.UTC))
	yes, zero := true, int64(300)
	hash := marker(10, hex)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: app + "-" + hash + "-" + marker(9, base36), GenerateName: app + "-" + hash + "-", Namespace: team, UID: uid(),
			ResourceVersion: "7777777", Generation: 1, CreationTimestamp: created,
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/version": fmt.Sprintf("1.%d.%d", number%30, number%7),
				"pod-template-hash": hash, "team": team,
			},
			Annotations: map[string]string{
				"checksum/config": marker(64, hex), "prometheus.io/scrape": "true", "sent": unsent,
				"prometheus.io/port": fmt.Sprint(8000 + number%1000),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprintf("%s-%d", app, number%11), UID: uid(),
				Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: v1.PodSpec{
			NodeName: fmt.Sprintf("node-%d", rng.Intn(200)), ServiceAccountName: app, RestartPolicy: v1.RestartPolicyAlways,
			DNSPolicy: v1.DNSClusterFirst, SchedulerName: "default-scheduler",
			Volumes: []v1.Volume{{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
				LocalObjectReference: v1.LocalObjectReference{Name: app}}}}},
		},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, PodIP: fmt.Sprintf("10.%d.%d.7", number%250, number/250%250),
			HostIP: fmt.Sprintf("192.0.2.%d", number%250), StartTime: &created, QOSClass: v1.PodQOSBurstable,
		},
	}
	for _, manager := range []string{"kube-controller-manager", "kubelet"} {
		fields := &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{"f:app":{},"f:hash":{},"f:team":{}}}}`)}
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &created,
			FieldsType: "FieldsV1", FieldsV1: fields,
		})
	}
	for _, why := range []string{"not-ready", "unreachable"} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{
			Key: "node.kubernetes.io/" + why, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &zero,
		})
	}
	for _, kind := range []v1.PodConditionType{v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled} {
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{
			Type: kind, Status: v1.ConditionTrue, LastTransitionTime: created,
		})
	}
	for _, name := range []string{"main", "proxy", "logs"}[:2+number%2] {
		container := templateContainer(rng, name, marker)
		pod.Spec.Containers = append(pod.Spec.Containers, container)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{
			Name: name, Image: container.Image, Ready: true, Started: &yes, RestartCount: int32(number % 7),
			ImageID:     "registry.example/" + name + "@sha256:" + fmt.Sprintf("%064x", number%40),
			ContainerID: "containerd://" + marker(64, hex),
			State:       v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: created}},
		})
	}
	return pod, values
}

func templateContainer(rng *rand.Rand, name string, marker func(int, string) string) v1.Container {
	container := v1.Container{
		Name: name, Image: fmt.Sprintf("registry.example/%s:%d.%d", name, rng.Intn(40), rng.Intn(10)),
		Args:  []string{fmt.Sprintf("--shard=%d", rng.Intn(64)), fmt.Sprintf("--region=zone-%d", rng.Intn(9))},
		Ports: []v1.ContainerPort{{Name: "http", ContainerPort: int32(8000 + rng.Intn(999)), Protocol: v1.ProtocolTCP}},
		Resources: v1.ResourceRequirements{
			Limits:   v1.ResourceList{"memory": resource.MustParse(fmt.Sprintf("%dMi", (1+rng.Intn(8))*128))},
			Requests: v1.ResourceList{"cpu": resource.MustParse(fmt.Sprintf("%dm", (1+rng.Intn(19))*50))},
		},
		VolumeMounts:           []v1.VolumeMount{{Name: "config", MountPath: "/etc/config", ReadOnly: true}},
		TerminationMessagePath: "/dev/termination-log", ImagePullPolicy: v1.PullIfNotPresent,
	}
	for range 5 + rng.Intn(4) {
		container.Env = append(container.Env, v1.EnvVar{
			Name: fmt.Sprintf("SETTING_%03d", rng.Intn(999)), Value: fmt.Sprintf("%016x", rng.Intn(4096)),
		})
	}
	container.Env = append(container.Env, v1.EnvVar{Name: "TOKEN", Value: marker(16, hex)})
	return container
}

// addField appends a length-delimited protobuf field.
func addField(out []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), value)
}

// addEnvelope appends the magic and the envelope up to the raw bytes, of which `length` follow.
func addEnvelope(out []byte, kind string, length int) []byte {
	out = append(out, "k8s\x00"...)
	out = addField(out, 1, addField(addField(nil, 1, []byte("v1")), 2, []byte(kind)))
	return protowire.AppendVarint(protowire.AppendTag(out, 2, protowire.BytesType), uint64(length))
}

// addEvent appends a watch event with pod `number`.
func (m *podMaker) addEvent(out []byte, kind string, number, revision int) []byte {
	if m.proto {
		return m.add(addFrame(out, kind, m.length(number)), number, revision)
	}
	out = fmt.Appendf(out, `{"type":"%s","object":{"kind":"Pod","apiVersion":"v1",`, kind)
	// Without its opening brace.
	brace := len(out)
	out = m.add(out, number, revision)
	return append(append(out[:brace], out[brace+1:]...), "}\n"...)
}

// bookmark returns the event that ends the pods of a streaming list.
func (m *podMaker) bookmark() []byte {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.Itoa(firstRevision), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}}
	if m.proto {
		encoded, _ := pod.Marshal()
		return append(addFrame(nil, "BOOKMARK", len(encoded)), encoded...)
	}
	pod.Kind, pod.APIVersion = "Pod", "v1"
	encoded, _ := json.Marshal(pod)
	return fmt.Appendf(nil, `{"type":"BOOKMARK","object":%s}%s`, encoded, "\n")
}

// addFrame appends a watch event in protobuf up to its pod, of which `length` bytes follow: its length and a WatchEvent.
func addFrame(out []byte, kind string, length int) []byte {
	envelope := addEnvelope(nil, "Pod", length)
	object := protowire.AppendTag(nil, 1, protowire.BytesType)
	object = protowire.AppendVarint(object, uint64(len(envelope)+length))
	event := addField(nil, 1, []byte(kind))
	event = protowire.AppendTag(event, 2, protowire.BytesType)
	event = protowire.AppendVarint(event, uint64(len(object)+len(envelope)+length))
	out = binary.BigEndian.AppendUint32(out, uint32(len(event)+len(object)+len(envelope)+length))
	return append(append(append(out, event...), object...), envelope...)
}
