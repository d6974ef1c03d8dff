/**
 * Writes docs/hardening.md from docs/hardening.json: where a cluster is stricter than Kubernetes by default, the
 * setting that undoes each item, and the units that keep their rights. `node .ci/hardening.ts` writes the page;
 * with `--check` it fails when the page is stale, when a setting does not exist, or when a test is missing.
 */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseClusterConfig } from '../internal/config/index.ts';
import { escapeCell, publishPage } from './page.ts';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const SOURCE = 'docs/hardening.json';
const CONFIG = 'version: 1\nname: x\nattestation: { variants: [machine-key], firstContact: fingerprint }\n';

interface Hardening {
  readonly items: readonly {
    readonly item: string;
    readonly undo: string;
    /** The test that fails without the item. */
    readonly proof: string;
    /** The test that the setting undoes it. */
    readonly undone: string;
  }[];
  /** Why a unit keeps an exposure above 3.0, by unit. */
  readonly units: Readonly<Record<string, string>>;
  readonly checks: {
    /** The CIS benchmark of kube-bench. */
    readonly benchmark: string;
    /** Automated checks that fail, with the test of the equivalent. */
    readonly failed: readonly {
      readonly id: string;
      readonly reason: string;
      readonly evidence: string;
      readonly proof: string;
    }[];
    /** Why checks pass also on a machine that has lost any one setting, by id. */
    readonly indifferent: Readonly<Record<string, string>>;
    /** Checks that kube-bench leaves to people: the result today (also on a worker, if it is another), and the answer. */
    readonly answered: Readonly<
      Record<string, { readonly status: string; readonly worker?: string; readonly answer: string }>
    >;
  };
}

/** Reads docs/hardening.json. */
export function readHardening(): Hardening {
  return JSON.parse(readFileSync(resolve(ROOT, SOURCE), 'utf8')) as Hardening;
}

/** The page, and what is wrong with its source. */
export function renderHardening({ items, units, checks }: Hardening): {
  readonly page: string;
  readonly problems: readonly string[];
} {
  const proofs = [...items, ...checks.failed]
    .map(({ proof }) => proof)
    .concat(items.map(({ undone }) => undone));
  const problems = [
    ...items.flatMap(({ undo }) => problemOf(undo)),
    ...proofs.filter((proof) => !existsSync(resolve(ROOT, proof))).map((proof) => `${proof} not found`),
  ];
  const rows = items.map(
    ({ item, undo, proof, undone }) => `| ${escapeCell(item)} | \`${proof}\` | \`${undo}\` | \`${undone}\` |`,
  );
  const kept = Object.entries(units).map(([unit, reason]) => `| \`${unit}\` | ${escapeCell(reason)} |`);
  const failed = checks.failed.map(
    ({ id, reason, evidence, proof }) =>
      `| ${id} | ${escapeCell(reason)} | ${escapeCell(evidence)} | \`${proof}\` |`,
  );
  const answers = Object.entries(checks.answered).map(
    ([id, { status, worker, answer }]) =>
      `| ${id} | ${worker === undefined ? status : `${status}, worker ${worker}`} | ${escapeCell(answer)} |`,
  );
  const indifferent = Object.entries(checks.indifferent).map(
    ([id, reason]) => `| ${id} | ${escapeCell(reason)} |`,
  );
  const page = `# Hardening

Where a cluster is stricter than one that kubeadm creates. Each item is undone by one setting of \`cluster.yaml\` when the cluster is
initialized. Clusters of earlier releases keep their behavior. Made by \`node .ci/hardening.ts\` from \`${SOURCE}\`.

| item | test | undone by | test |
| --- | --- | --- | --- |
${rows.join('\n')}

In addition, and without a change for workloads: an audit log of the API server ([operators.md](operators.md)), Secrets and ConfigMaps
encrypted in etcd, no profiling, kernel parameters that the kubelet only checks, and files and units that only root may read.

## Systemd units

The exposure of each unit, as \`systemd-analyze security\` computes it, is at most 3.0 (\`.ci/unit-exposure.test.ts\`), except for these:

| unit | reason |
| --- | --- |
${kept.join('\n')}

## The CIS benchmark

\`e2e/cluster/hardening/kube-bench.story.ts\` runs every check of \`${checks.benchmark}\` with kube-bench on a control plane and a worker, and fails
when a check has another result than this page says, or when the page lists a check that kube-bench does not have.

| fails | why | equivalent evidence | test |
| --- | --- | --- | --- |
${failed.join('\n')}

Then the story removes each flag and each key of a configuration file from what kube-bench sees of the control plane, one at a time, and the owners and modes
of all files. Every check that passed fails at least once, except for these, and those of section 5, which look at objects of Kubernetes:

| passes in any case | why |
| --- | --- |
${indifferent.join('\n')}

kube-bench leaves these to people. PASS means that it finds the setting and warns when the setting is lost; WARN means that
it warns in any case, so nothing here notices a loss:

| check | result | answer |
| --- | --- | --- |
${answers.join('\n')}
`;
  return { page, problems };
}

function problemOf(undo: string): readonly string[] {
  const [path = '', value = ''] = undo.split(': ');
  const [section = '', key = ''] = path.split('.');
  try {
    parseClusterConfig(`${CONFIG}${section}: { ${key}: ${value} }\n`, 'cluster.yaml');
    return [];
  } catch (error) {
    return [`${undo} is not a setting: ${String(error)}`];
  }
}

if (import.meta.main) {
  const { page, problems } = renderHardening(readHardening());
  publishPage({ root: ROOT, path: 'docs/hardening.md', page, problems, command: 'node .ci/hardening.ts' });
}
