package main

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// describe returns the Status behind an error, or its text.
func describe(err error) any {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return map[string]any{"error": status.Status()}
	}
	return map[string]any{"error": err.Error()}
}

// events reads a number of events from a watch: their types and objects.
func events(watcher watch.Interface, count int) []any {
	defer watcher.Stop()
	var seen []any
	for len(seen) < count {
		select {
		case event, open := <-watcher.ResultChan():
			if !open {
				return append(seen, "closed")
			}
			seen = append(seen, map[string]any{"type": event.Type, "object": event.Object})
		case <-time.After(20 * time.Second):
			return append(seen, "nothing more came")
		}
	}
	return seen
}

// eventually polls until the condition holds.
func eventually(ctx context.Context, what string, condition func() (bool, error)) error {
	for {
		done, err := condition()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("waited in vain until " + what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
