import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.PodBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.Watch;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import io.fabric8.kubernetes.client.utils.Serialization;
import java.io.File;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Runs the same steps with the fabric8 client on any API server: {@code Clients KUBECONFIG NAMESPACE}.
 *
 * <p>Prints one JSON array on standard output: the steps and their answers, in order.
 */
public final class Clients {
  private static final long SECONDS = 60;

  private final KubernetesClient client;
  private final String namespace;
  private final List<Map<String, Object>> steps = new ArrayList<>();

  private Clients(KubernetesClient client, String namespace) {
    this.client = client;
    this.namespace = namespace;
  }

  public static void main(String[] arguments) throws Exception {
    Config config = Config.fromKubeconfig(new File(arguments[0]));
    try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
      Clients clients = new Clients(client, arguments[1]);
      clients.watch();
      clients.informer();
      clients.pod();
      System.out.println(Serialization.asJson(clients.steps));
    }
  }

  private void note(String step, Object answer) {
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("step", step);
    found.put("answer", answer);
    steps.add(found);
  }

  private ConfigMap configMap(String name, String value) {
    return new ConfigMapBuilder()
        .withNewMetadata().withName(name).withNamespace(namespace).endMetadata()
        .addToData("k", value)
        .build();
  }

  /** Show a long value by its length. */
  private static String shown(ConfigMap object) {
    String value = object.getData().get("k");
    return object.getMetadata().getName() + " " + (value.length() > 100 ? "with " + value.length() : value);
  }

  private static List<String> take(BlockingQueue<String> events, int count) throws InterruptedException {
    List<String> found = new ArrayList<>();
    for (int number = 0; number < count; number++) {
      String event = events.poll(SECONDS, TimeUnit.SECONDS);
      if (event == null) {
        throw new IllegalStateException("only these events: " + found);
      }
      found.add(event);
    }
    return found;
  }

  /** Follow one object through its life. */
  private void watch() throws InterruptedException {
    BlockingQueue<String> events = new LinkedBlockingQueue<>();
    Watcher<ConfigMap> watcher = new Watcher<>() {
      @Override
      public void eventReceived(Action action, ConfigMap object) {
        events.add(action + " " + shown(object));
      }

      @Override
      public void onClose(WatcherException cause) {
        events.add("closed by the server");
      }

      @Override
      public void onClose() {
        events.add("closed");
      }
    };
    try (Watch ignored = client.configMaps().inNamespace(namespace).withName("watched").watch(watcher)) {
      client.resource(configMap("watched", "1")).create();
      client.resource(configMap("other", "1")).create();
      client.resource(configMap("watched", "é")).update();
      client.resource(configMap("watched", "x".repeat(300_000))).update();
      client.resource(configMap("watched", "x")).delete();
      note("watch", take(events, 4));
    }
    note("close the watch", take(events, 1));
  }

  /** Keep an informer's cache current. */
  private void informer() throws InterruptedException {
    client.resource(configMap("first", "1")).create();
    BlockingQueue<String> events = new LinkedBlockingQueue<>();
    ResourceEventHandler<ConfigMap> handler = new ResourceEventHandler<>() {
      @Override
      public void onAdd(ConfigMap added) {
        note("added", added);
      }

      @Override
      public void onUpdate(ConfigMap old, ConfigMap updated) {
        note("updated", updated);
      }

      @Override
      public void onDelete(ConfigMap deleted, boolean unknown) {
        note("deleted", deleted);
      }

      private void note(String what, ConfigMap object) {
        events.add(what + " " + shown(object));
      }
    };
    try (SharedIndexInformer<ConfigMap> informer =
        client.configMaps().inNamespace(namespace).withField("metadata.name", "first").inform(handler)) {
      client.resource(configMap("first", "2")).update();
      client.configMaps().inNamespace(namespace).withName("first")
          .waitUntilCondition(found -> "2".equals(found.getData().get("k")), SECONDS, TimeUnit.SECONDS);
      note("informer", take(events, 2));
      note("its cache", informer.getStore().list().stream().map(found -> found.getData()).toList());
      client.resource(configMap("first", "")).delete();
      note("informer of a deletion", take(events, 1));
      note("its empty cache", informer.getStore().listKeys());
    }
  }

  /** Wait until a pod is ready, and until it is gone. */
  private void pod() {
    Pod pod = new PodBuilder()
        .withNewMetadata().withName("p").withNamespace(namespace).endMetadata()
        .withNewSpec().addNewContainer().withName("c").withImage("i").endContainer().endSpec()
        .build();
    client.resource(pod).create();
    Pod ready = client.resource(pod).waitUntilReady(SECONDS, TimeUnit.SECONDS);
    note("ready", ready.getStatus().getPhase());
    client.resource(pod).withGracePeriod(0).delete();
    client.pods().inNamespace(namespace).withName("p").waitUntilCondition(Objects::isNull, SECONDS, TimeUnit.SECONDS);
    note("gone", client.pods().inNamespace(namespace).withName("p").get());
  }
}
