import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { env } from 'node:process';
import { test } from 'node:test';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { expressionsOf } from '../../../.ci/monitoring/dashboard.ts';
import { alertRules } from '../../../internal/doctor/index.ts';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import { helm } from '../charts/chart-sources.ts';
import { buildPrometheus } from './prometheus-programs.ts';
import { healthySeries, RULE_CASES, type RuleCase, type Series } from './rule-cases.ts';

const CHART = resolve(import.meta.dirname, '../../../cli/charts/monitoring');
const FILES = join(CHART, 'files');
const RULES = join(FILES, 'rules.yaml');
const DASHBOARD = join(FILES, 'dashboard.json');
/** Minutes after which the alerts are checked: longer than the longest `for` of a rule. */
const AT_MINUTES = 90;
const FIRING = 'count by (alertname, severity, node) (ALERTS{alertstate="firing"})';
const TOOL_MS = 120_000;

await test('the alert rules of the chart', async (story) => {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-rules-'));
  story.after(() => rm(directory, { recursive: true }));
  const promtool = await buildPrometheus('promtool', directory);
  const commands = new ExecaRunner({ path: env['PATH'] ?? '' });
  const run = (...args: readonly string[]) =>
    commands.run({ argv: [promtool, ...args], timeoutMs: TOOL_MS, signal: new AbortController().signal });
  const all = alertRules().groups.flatMap((group) => group.rules).length;
  const rules = alertRules().groups.flatMap((group) => group.rules.filter((rule) => 'alert' in rule));

  await story.test('promtool accepts the file, and finds nothing to improve', async (step) => {
    const { stdout } = await run('check', 'rules', '--lint=all', '--lint-fatal', RULES);
    assert.match(stdout, new RegExp(`SUCCESS: ${all} rules found`));
    step.diagnostic(stdout.trim().split('\n').at(-1) ?? '');
  });

  await story.test(
    'helm renders the rules unchanged, as a file and for the Prometheus operator',
    async () => {
      const rendered = await helm('template', 'monitoring', CHART, '--set', 'prometheusRule.enabled=true');
      const objects = parseAllDocuments(rendered).map((each) => each.toJSON() as RenderedObject);
      const files = objects.find(
        ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'monitoring',
      );
      assert.deepEqual(parse(files?.data?.['rules.yaml'] ?? ''), alertRules());
      assert.deepEqual(objects.find(({ kind }) => kind === 'PrometheusRule')?.spec, alertRules());
      const dashboard = objects.find(({ metadata }) => metadata.labels?.['grafana_dashboard'] === '1');
      assert.deepEqual(
        JSON.parse(dashboard?.data?.['cluster.json'] ?? ''),
        JSON.parse(await readFile(DASHBOARD, 'utf8')),
      );
    },
  );

  await story.test('promtool accepts each expression of the dashboard', async () => {
    const expressions = expressionsOf(JSON.parse(await readFile(DASHBOARD, 'utf8')) as object);
    assert.ok(expressions.length > 20, `only ${expressions.length} expressions`);
    const path = join(directory, 'dashboard.yaml');
    const recorded = expressions.map((expr, index) => ({ record: `dashboard:panel_${index}`, expr }));
    await writeFile(path, stringify({ groups: [{ name: 'dashboard', rules: recorded }] }));
    await run('check', 'rules', path);
  });

  await story.test('each alert and severity has a case', () => {
    const fired = RULE_CASES.flatMap(({ fires }) => fires.map((each) => `${each.alert} ${each.severity}`));
    const wanted = rules.map(({ alert, labels }) => `${alert} ${labels['severity']}`);
    assert.deepEqual([...new Set(fired)].toSorted(), wanted.toSorted());
  });

  for (const each of RULE_CASES)
    await story.test(
      `${each.name} fires ${each.fires.map(({ alert }) => alert).join(', ') || 'no alert'}`,
      async () => {
        const path = join(directory, 'test.yaml');
        await writeFile(path, stringify(testOf(each)));
        await run('test', 'rules', path);
      },
    );

  await story.test('promtool fails a case whose expected alert does not fire', async () => {
    const [healthy] = RULE_CASES;
    assert.ok(healthy !== undefined);
    const path = join(directory, 'test.yaml');
    const wrong = {
      ...healthy,
      fires: [{ alert: 'ClusterKubelet', severity: 'critical', node: 'n4' }],
    } as const;
    await writeFile(path, stringify(testOf(wrong)));
    await assert.rejects(run('test', 'rules', path));
  });
});

interface RenderedObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: unknown;
}

/**
 * A file for `promtool test rules`: exactly these alerts fire in the end, and no alert fires before its `for`
 * duration.
 */
function testOf({ name, fault, fires, atMinutes = AT_MINUTES }: RuleCase): object {
  const due = alertRules()
    .groups.flatMap((group) => group.rules)
    .flatMap((rule) => ('alert' in rule && fires.some(({ alert }) => alert === rule.alert) ? [rule.for] : []))
    .map((text) => Number(text.replace('m', '')));
  const samples = fires.map(({ alert, severity, node, count = 1 }) => ({
    labels: selector('', { alertname: alert, severity, ...(node !== undefined && { node }) }),
    value: count,
  }));
  return {
    rule_files: [RULES],
    evaluation_interval: '1m',
    tests: [
      {
        name,
        interval: '1m',
        input_series: fault(healthySeries()).map(({ name: of, labels, values }: Series) => ({
          series: selector(of, labels),
          values,
        })),
        promql_expr_test: [
          { expr: FIRING, eval_time: `${atMinutes}m`, exp_samples: samples },
          { expr: FIRING, eval_time: `${Math.max(0, Math.min(...due, AT_MINUTES) - 1)}m`, exp_samples: [] },
        ],
      },
    ],
  };
}

function selector(name: string, labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return `${name}{${pairs.join(',')}}`;
}
