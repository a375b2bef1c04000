package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const writers = 8

// requests counts the lists sent, paged and streamed.
type requests struct {
	next            http.RoundTripper
	lists, streamed atomic.Int64
}

func (c *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	switch {
	case request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, "/configmaps"):
	case query.Get("watch") == "":
		c.lists.Add(1)
	case query.Get("sendInitialEvents") == "true":
		c.streamed.Add(1)
	}
	return c.next.RoundTrip(request)
}

// counted has the numbers of events that a handler got.
type counted struct{ Added, Updated, Deleted atomic.Int64 }

// informer follows COUNT objects through create, update and delete. KUBE_FEATURE_WatchListClient decides how it lists;
// a second kubeconfig, or unix:PATH for a server on a socket, is for reading, the first one for writing.
func informer(r *run) error {
	if len(r.arguments) < 1 {
		return errors.New("how many objects?")
	}
	count, err := strconv.Atoi(r.arguments[0])
	if err != nil {
		return err
	}
	writer, err := kubernetes.NewForConfig(asProtobuf(r.config))
	if err != nil {
		return err
	}
	configs := writer.CoreV1().ConfigMaps(r.namespace)
	// Every namespace has one with the certificate of the server.
	present, err := configs.List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	others := len(present.Items) + 3
	for i := range 3 {
		if _, err := configs.Create(r.ctx, numbered("before-", i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	counter := &requests{}
	config := asProtobuf(r.config)
	if len(r.arguments) > 1 {
		if config, err = readingConfig(r.arguments[1]); err != nil {
			return err
		}
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counter.next = next
		return counter
	})
	reader, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	seen := &counted{}
	factory := informers.NewSharedInformerFactoryWithOptions(reader, 0, informers.WithNamespace(r.namespace))
	shared := factory.Core().V1().ConfigMaps().Informer()
	if _, err := shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { seen.Added.Add(1) },
		UpdateFunc: func(any, any) { seen.Updated.Add(1) },
		DeleteFunc: func(any) { seen.Deleted.Add(1) },
	}); err != nil {
		return err
	}
	factory.Start(r.ctx.Done())
	factory.WaitForCacheSync(r.ctx.Done())
	r.note("objects after the first list", len(shared.GetStore().ListKeys()), nil)

	inParallel := func(do func(i int) error) error { return parallel(count, do) }
	if err := inParallel(func(i int) error {
		_, err := configs.Create(r.ctx, numbered("c-", i), metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := inParallel(func(i int) error {
		changed := numbered("c-", i)
		changed.Data["round"] = "2"
		_, err := configs.Update(r.ctx, changed, metav1.UpdateOptions{})
		return err
	}); err != nil {
		return err
	}
	r.note("the cache equals a list after creates and updates", "yes", r.sameAsList(writer, shared, count+others))
	if err := inParallel(func(i int) error {
		return configs.Delete(r.ctx, fmt.Sprintf("c-%d", i), metav1.DeleteOptions{})
	}); err != nil {
		return err
	}
	r.note("the cache equals a list after deletes", "yes", r.sameAsList(writer, shared, others))
	err = eventually(r.ctx, "all handlers ran", func() (bool, error) { return seen.Deleted.Load() >= int64(count), nil })
	r.note("events", map[string]int64{"added": seen.Added.Load(), "updated": seen.Updated.Load(), "deleted": seen.Deleted.Load()}, err)
	r.note("lists", counter.lists.Load(), nil)
	r.note("streaming lists", counter.streamed.Load(), nil)
	return nil
}

// readingConfig loads a kubeconfig, or dials the socket that unix:PATH names.
func readingConfig(from string) (*rest.Config, error) {
	path, isSocket := strings.CutPrefix(from, "unix:")
	if !isSocket {
		return clientcmd.BuildConfigFromFlags("", from)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", path)
	}
	return &rest.Config{Host: "http://localhost", Dial: dial, QPS: -1}, nil
}

func numbered(prefix string, i int) *corev1.ConfigMap {
	data := map[string]string{"round": "1", "number": strconv.Itoa(i)}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: prefix + strconv.Itoa(i)}, Data: data}
}

// sameAsList waits until the cache has a number of objects, and compares each with a list.
func (r *run) sameAsList(client kubernetes.Interface, shared cache.SharedIndexInformer, count int) error {
	list, err := client.CoreV1().ConfigMaps(r.namespace).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) != count {
		return fmt.Errorf("the list has %d objects, not %d", len(list.Items), count)
	}
	return eventually(r.ctx, "the cache equals the list", func() (bool, error) {
		if len(shared.GetStore().ListKeys()) != count {
			return false, nil
		}
		for i := range list.Items {
			kept, exists, err := shared.GetStore().GetByKey(r.namespace + "/" + list.Items[i].Name)
			if err != nil || !exists {
				return false, err
			}
			found, wanted := kept.(*corev1.ConfigMap), list.Items[i].DeepCopy()
			if found.ManagedFields == nil {
				// A feed leaves them out.
				wanted.ManagedFields = nil
			}
			if !reflect.DeepEqual(found.ObjectMeta, wanted.ObjectMeta) || !reflect.DeepEqual(found.Data, wanted.Data) {
				return false, nil
			}
		}
		return true, nil
	})
}

// parallel runs `do` for 0..count-1 in several goroutines and returns the first error.
func parallel(count int, do func(i int) error) error {
	var group sync.WaitGroup
	var once sync.Once
	var failed error
	var next atomic.Int64
	for range writers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < count; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	group.Wait()
	return failed
}
