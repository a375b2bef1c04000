package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	// Registers the metrics provider of named queues.
	_ "sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	cycles    = 200_000
	burstKeys = 100_000
	keys      = 1_000
)

type queue = workqueue.TypedRateLimitingInterface[string]

func newQueue(name string) queue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
	config := workqueue.TypedRateLimitingQueueConfig[string]{Name: name}
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config)
}

func names(count int) []string {
	made := make([]string, count)
	for i := range made {
		made[i] = fmt.Sprintf("namespace-%02d/deployment-%06d", i%20, i)
	}
	return made
}

var queueJobs = map[string]func() float64{
	"cycle":          func() float64 { return cycle(newQueue("")) },
	"cycle_metrics":  func() float64 { return cycle(newQueue("measured")) },
	"burst":          func() float64 { return burst(newQueue("")) },
	"burst_again":    burstAgain,
	"burst_first":    func() float64 { return burst(newQueue("")) },
	"burst_metrics":  func() float64 { return burst(newQueue("measured-burst")) },
	"priority_burst": priorityBurst,
	"contended":      contended,
}

// queueFigures measures the named jobs, or all of them.
func queueFigures(names ...string) (map[string]float64, error) {
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(queueJobs))
	}
	figures := map[string]float64{}
	for _, name := range names {
		job, known := queueJobs[name]
		if !known {
			return nil, fmt.Errorf("no figure %q of the queue", name)
		}
		if name == "burst_first" {
			// Once: the next round would find the memory of this one.
			figures[name] = job()
			continue
		}
		figures[name] = median(job)
	}
	return figures, nil
}

// cycle measures add + get + forget + done, in seconds for the four.
func cycle(q queue) float64 {
	defer q.ShutDown()
	all := names(keys)
	start := time.Now()
	for i := range cycles {
		q.Add(all[i%keys])
		key, _ := q.Get()
		q.Forget(key)
		q.Done(key)
	}
	return time.Since(start).Seconds() / cycles
}

// burst adds every key twice and drains the queue, in seconds per key.
func burst(q queue) float64 {
	defer q.ShutDown()
	return burstOf(q, names(burstKeys))
}

// burstAgain is burst on a queue that had one already, and has kept the memory for it.
func burstAgain() float64 {
	q := newQueue("")
	defer q.ShutDown()
	all := names(burstKeys)
	burstOf(q, all)
	return burstOf(q, all)
}

func burstOf(q queue, all []string) float64 {
	start := time.Now()
	for range 2 {
		for _, key := range all {
			q.Add(key)
		}
	}
	for q.Len() > 0 {
		key, _ := q.Get()
		q.Forget(key)
		q.Done(key)
	}
	return time.Since(start).Seconds() / burstKeys
}

// priorityBurst is burst on controller-runtime's priority queue, with four priorities.
func priorityBurst() float64 {
	q := priorityqueue.New[string]("")
	defer q.ShutDown()
	all := names(burstKeys)
	start := time.Now()
	for range 2 {
		for i, key := range all {
			priority := (i % 4) * 10
			q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, key)
		}
	}
	for range burstKeys {
		key, _, _ := q.GetWithPriority()
		q.Forget(key)
		q.Done(key)
	}
	return time.Since(start).Seconds() / burstKeys
}

// contended runs four producers and four consumers, in seconds per key handed out.
func contended() float64 {
	q := newQueue("")
	all := names(burstKeys)
	var producers, consumers sync.WaitGroup
	var lock sync.Mutex
	handed := 0
	start := time.Now()
	for producer := range 4 {
		producers.Go(func() {
			for i := producer; i < burstKeys; i += 4 {
				q.Add(all[i])
			}
		})
	}
	for range 4 {
		consumers.Go(func() {
			mine := 0
			for {
				key, shutdown := q.Get()
				if shutdown {
					break
				}
				mine++
				q.Forget(key)
				q.Done(key)
			}
			lock.Lock()
			handed += mine
			lock.Unlock()
		})
	}
	producers.Wait()
	q.ShutDown()
	consumers.Wait()
	return time.Since(start).Seconds() / float64(handed)
}
