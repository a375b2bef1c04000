//! Runs the same steps with kube-rs on any API server: `clients KUBECONFIG NAMESPACE`.
//!
//! A controller keeps a ConfigMap for each Widget and reports its size in the Widget's status, both by server-side
//! apply. Prints one JSON array on standard output: the steps and their answers, in order.

use std::{env, error::Error, future::Future, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
    },
    config::{KubeConfigOptions, Kubeconfig},
    core::Resource,
    runtime::{
        Controller,
        controller::Action,
        wait::{await_condition, conditions},
        watcher,
    },
};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);
type Outcome<T> = Result<T, Box<dyn Error>>;

/// What the controller and the steps share.
struct Run {
    client: Client,
    namespace: String,
    group: String,
    widget: ApiResource,
}

impl Run {
    fn widgets(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &self.widget)
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn definition(&self) -> Value {
        let object = |fields: Value| json!({"type": "object", "properties": fields});
        let number = object(json!({"size": {"type": "integer"}}));
        json!({
            "metadata": {"name": format!("widgets.{}", self.group)},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": object(json!({"spec": number, "status": number}))},
                }],
            },
        })
    }

    fn object(&self, name: &str, size: i64) -> Outcome<DynamicObject> {
        Ok(serde_json::from_value(json!({
            "apiVersion": self.widget.api_version, "kind": "Widget",
            "metadata": {"name": name}, "spec": {"size": size},
        }))?)
    }

    /// Waits until a Widget and its ConfigMap show this size; returns both.
    async fn settled(&self, name: &str, size: i64) -> Outcome<Value> {
        let shown = json!({"size": size});
        let widget = within(await_condition(
            self.widgets(),
            name,
            move |found: Option<&DynamicObject>| {
                found.is_some_and(|one| one.data["status"] == shown)
            },
        ))
        .await?;
        let text = size.to_string();
        let child = within(await_condition(
            self.config_maps(),
            name,
            move |found: Option<&ConfigMap>| {
                found
                    .and_then(|one| one.data.as_ref())
                    .is_some_and(|data| data["size"] == text)
            },
        ))
        .await?;
        Ok(json!({"widget": widget, "child": child}))
    }
}

/// Waits for a condition, within the limit.
async fn within<T>(
    waiting: impl Future<Output = Result<T, kube::runtime::wait::Error>>,
) -> Outcome<T> {
    Ok(tokio::time::timeout(LIMIT, waiting).await??)
}

async fn reconcile(widget: Arc<DynamicObject>, run: Arc<Run>) -> Result<Action, kube::Error> {
    let name = widget.metadata.name.as_deref().unwrap_or_default();
    let size = widget.data["spec"]["size"].as_i64().unwrap_or_default();
    let applying = PatchParams::apply("widget-controller").force();
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [widget.controller_owner_ref(&run.widget)]},
        "data": {"size": size.to_string()},
    });
    run.config_maps()
        .patch(name, &applying, &Patch::Apply(child))
        .await?;
    // Without metadata: the name is in the URL.
    let status =
        json!({"apiVersion": run.widget.api_version, "kind": "Widget", "status": {"size": size}});
    run.widgets()
        .patch_status(name, &applying, &Patch::Apply(status))
        .await?;
    Ok(Action::await_change())
}

async fn steps(run: &Run) -> Outcome<Vec<Value>> {
    let mut steps = Vec::new();
    let mut note = |step: &str, answer: Value| steps.push(json!({"step": step, "answer": answer}));
    for (name, size) in [("a", 1), ("b", 2)] {
        run.widgets()
            .create(&PostParams::default(), &run.object(name, size)?)
            .await?;
        note(&format!("create {name}"), run.settled(name, size).await?);
    }
    let bigger = Patch::Merge(json!({"spec": {"size": 3}}));
    run.widgets()
        .patch("a", &PatchParams::default(), &bigger)
        .await?;
    note("change it", run.settled("a", 3).await?);
    let child = run.config_maps().get("a").await?;
    run.config_maps()
        .delete("a", &DeleteParams::default())
        .await?;
    let uid = child.metadata.uid.unwrap_or_default();
    within(await_condition(
        run.config_maps(),
        "a",
        conditions::is_deleted(&uid),
    ))
    .await?;
    note("delete its child", run.settled("a", 3).await?);
    run.widgets().delete("b", &DeleteParams::default()).await?;
    let gone = |found: Option<&ConfigMap>| found.is_none();
    within(await_condition(run.config_maps(), "b", gone)).await?;
    note(
        "delete the other with its child",
        json!(run.widgets().get_opt("b").await?),
    );
    Ok(steps)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().collect();
    let [_, kubeconfig, namespace] = arguments.as_slice() else {
        return Err("usage: clients KUBECONFIG NAMESPACE".into());
    };
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let group = format!("{namespace}.kube-rs.example.org");
    let widget = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Widget"));
    let run = Run {
        client: Client::try_from(config)?,
        namespace: namespace.clone(),
        group,
        widget,
    };

    let definitions: Api<CustomResourceDefinition> = Api::all(run.client.clone());
    let definition: CustomResourceDefinition = serde_json::from_value(run.definition())?;
    definitions
        .create(&PostParams::default(), &definition)
        .await?;
    let name = format!("widgets.{}", run.group);
    within(await_condition(
        definitions.clone(),
        &name,
        conditions::is_crd_established(),
    ))
    .await?;

    let run = Arc::new(run);
    let controller = Controller::new_with(
        run.widgets(),
        watcher::Config::default(),
        run.widget.clone(),
    )
    .owns(run.config_maps(), watcher::Config::default())
    .run(
        reconcile,
        |_, _, _| Action::requeue(Duration::from_millis(100)),
        run.clone(),
    )
    .for_each(async |done| {
        if let Err(error) = done {
            eprintln!("{error}");
        }
    });
    let found = tokio::select! {
        () = controller => return Err("the controller ended".into()),
        found = steps(&run) => found?,
    };
    definitions.delete(&name, &DeleteParams::default()).await?;
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}
