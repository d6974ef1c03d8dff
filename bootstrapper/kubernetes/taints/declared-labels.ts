import { z } from 'zod';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import { kubectl } from '../kubectl.ts';

/**
 * The field manager of server-side apply: Kubernetes records which labels it has set, so that labels of
 * others are kept and a label that is no longer declared is removed
 * (kubernetes.io/docs/reference/using-api/server-side-apply).
 */
const MANAGER = 'cluster';
/** A line per node: name, UID, labels and the fields of the manager; the last two as JSON or empty. */
const FORMAT = `{range .items[*]}{.metadata.name}{"\\t"}{.metadata.uid}{"\\t"}{.metadata.labels}{"\\t"}{.metadata.managedFields[?(@.manager=="${MANAGER}")].fieldsV1}{"\\n"}{end}`;

const labelsShape = z.record(z.string(), z.string());
const fieldsShape = z.object({
  'f:metadata': z.object({ 'f:labels': z.record(z.string(), z.unknown()).default({}) }).prefault({}),
});

/** The labels of a Node object. */
export interface NodeLabels {
  readonly name: string;
  /** Identifies the object: a node that is deleted and registers again has another UID. */
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Keys of the labels that `declareLabels` has set. */
  readonly declared: readonly string[];
}

/** Lists the labels of all nodes. Needs admin.conf, which exists only on control planes. */
export async function listDeclaredLabels(
  commands: CommandRunner,
  signal: AbortSignal,
): Promise<readonly NodeLabels[]> {
  const args = ['get', 'nodes', '--show-managed-fields', '--output', `jsonpath=${FORMAT}`];
  const lines = (await kubectl(commands, args, signal)).split('\n').filter((line) => line !== '');
  return lines.map((line) => {
    const [name = '', uid = '', labels = '', fields = ''] = line.split('\t');
    const declared = fields === '' ? {} : fieldsShape.parse(JSON.parse(fields))['f:metadata']['f:labels'];
    return {
      name,
      uid,
      labels: labels === '' ? {} : labelsShape.parse(JSON.parse(labels)),
      declared: Object.keys(declared).map((key) => key.replace(/^f:/, '')),
    };
  });
}

/** Whether the labels that `declareLabels` has set on a node differ from the wanted labels. */
export function declaresOther(node: NodeLabels, wanted: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(wanted);
  const isSame = keys.length === node.declared.length && keys.every((key) => node.declared.includes(key));
  return !isSame || keys.some((key) => node.labels[key] !== wanted[key]);
}

/**
 * Sets these labels on a node, and removes those that an earlier call has set. Replaces the value of a label
 * that somebody else has set. Fails if the node was deleted since it was listed.
 */
export async function declareLabels(
  commands: CommandRunner,
  { name, uid }: Pick<NodeLabels, 'name' | 'uid'>,
  labels: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  // With the UID, Kubernetes refuses the request instead of creating a node that does not exist.
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name, uid, labels } };
  const args = [
    'apply',
    '--server-side',
    '--force-conflicts',
    `--field-manager=${MANAGER}`,
    '--filename',
    '-',
  ];
  await kubectl(commands, args, signal, { input: JSON.stringify(node) });
}
