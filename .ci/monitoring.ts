/**
 * Writes the alert rules and the dashboard of the chart `monitoring`, and docs/monitoring.md, from the checks of `cluster doctor`. `node
 * .ci/monitoring.ts` writes them; with `--check` it fails when one of them is stale.
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { alertNameOf, alertRules, DOCTOR_CHECKS } from '../internal/doctor/index.ts';
import { PORTS } from '../internal/endpoint/index.ts';
import { dashboard } from './monitoring/dashboard.ts';
import { escapeCell, publishPage } from './page.ts';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const COMMAND = 'node .ci/monitoring.ts';
const INTRODUCTION = `# Metrics and alerts

<!-- written by \`${COMMAND}\`, from internal/doctor -->

Prometheus can watch the nodes of a cluster with the thresholds of [\`cluster doctor\`](doctor.md). \`cluster node metrics NODE\` shows the
metrics of a node without Prometheus.

## Switch it on

1. Let each node serve its metrics. In \`cluster.yaml\`:

   \`\`\`yaml
   monitoring: { exporter: true }
   \`\`\`

   \`cluster config apply\` starts \`cluster-exporter.service\` on each node that sees the owner's signature: the metrics of agent, join service
   and both etcd members on port ${PORTS.exporter}, over TLS. Firewalls must let Prometheus reach this port. It is off by default.

2. Install the chart: add it to \`charts\` of \`cluster.yaml\`, and run \`cluster init\` again.

   \`\`\`yaml
   charts:
     - { name: monitoring, chart: 'bundle:monitoring', namespace: monitoring }
   \`\`\`

   It has the right to read metrics, the rules below and a scrape configuration in the ConfigMap \`monitoring\`. Prometheus itself is not in it.
   A node that serves no metrics is a \`ClusterNodeSilent\`: each one without step 1, and each one with an agent of an earlier version.

3. Mount the ConfigMap in the pod of your Prometheus, and name its files:

   \`\`\`yaml
   rule_files: [/etc/monitoring/rules.yaml]
   scrape_config_files: [/etc/monitoring/scrape.yaml]
   \`\`\`

   Its service account needs the right: run it as \`monitoring\` in the namespace of the chart, or name its own with the values
   \`serviceAccount.name\` and \`serviceAccount.namespace\`. With the Prometheus operator, \`prometheusRule.enabled: true\` writes the rules as a
   PrometheusRule, and \`scrape.yaml\` goes into a Secret for \`additionalScrapeConfigs\` (without its first line).

## Who may read

The exporter serves holders of a Kubernetes token that may \`get\` the path \`/metrics\`, as kubelets and API servers do; the chart's role gives
nothing else but a list of the nodes. The exporter asks an API server as the holder of the token, so it needs no right of its own. The kubelet
renews the token of a pod. While no API server answers, or none is ready, a token that was allowed is accepted for one more hour, so that Prometheus still sees
etcd when the control plane is down. The certificate is the one with which the node's kubelet serves; it is renewed as that one, and verified
with the CA that every pod has. [The threat model](threat-model.md#what-untrusted-peers-reach-on-a-node) has the rest.

## Alerts

A rule records each problem as a series of \`cluster:doctor_problem\` with the code of the check. An alert fires for a problem that no error explains
which the doctor checks before it, on the same node or in the whole cluster: a control plane without power is one alert, not ten. Each alert has
the labels \`code\` and \`severity\` and, as annotations, a summary and the fix of the check. An alert ends two minutes after its problem.

\`ClusterUnwatched\` fires when Prometheus has no node as a target: then no other alert can fire.

The dashboard for Grafana is in the ConfigMap \`monitoring-dashboard\` with the label \`grafana_dashboard: "1"\`, by which the usual sidecar finds it: the
problems, and the figure of each check with its limits.
`;
const GAPS = `## Checks without an alert

\`cluster doctor\` makes these checks too, and no metric of a node expresses them.
`;

const row = (cells: readonly string[]): string => `| ${cells.map(escapeCell).join(' | ')} |`;

/** The rules as a file for Prometheus. */
export function renderRules(): string {
  return `# Written by \`${COMMAND}\`, from internal/doctor.\n${stringify(alertRules(), { lineWidth: 0 })}`;
}

/** A summary without its templates: “NODE” for the label, “…” for the figure. */
function sentenceOf(summary: string): string {
  return summary
    .replace(/\{\{ \$labels\.(\w+) \}\}/g, (_, label: string) => label.toUpperCase())
    .replace(/\{\{ \$value[^}]*\}\}/g, '…');
}

/** The page: one row for each alert, in the order of the checks, and the checks without one. */
export function renderPage(): string {
  const alerts = DOCTOR_CHECKS.flatMap((check) => {
    if ('none' in check.alert) return [];
    const { limits, forMinutes, summary } = check.alert;
    const severities = Object.keys(limits).join(', ');
    return [
      row([
        `\`${alertNameOf(check)}\``,
        severities,
        `${forMinutes} min`,
        sentenceOf(summary),
        `\`${check.code}\``,
      ]),
    ];
  });
  const gaps = DOCTOR_CHECKS.flatMap(({ code, what, alert }) =>
    'none' in alert ? [row([`\`${code}\``, what, alert.none])] : [],
  );
  return [
    INTRODUCTION,
    ...['| alert | severity | after | meaning | code of the check |', '|---|---|---|---|---|', ...alerts, ''],
    GAPS,
    ...['| code | what | why |', '|---|---|---|', ...gaps, ''],
  ].join('\n');
}

const FILES: Readonly<Record<string, () => string>> = {
  'cli/charts/monitoring/files/rules.yaml': renderRules,
  'cli/charts/monitoring/files/dashboard.json': () => `${JSON.stringify(dashboard(), undefined, 1)}\n`,
  'docs/monitoring.md': renderPage,
};

if (import.meta.main)
  for (const [path, render] of Object.entries(FILES))
    publishPage({ root: ROOT, path, page: render(), problems: [], command: COMMAND });
