import { z } from 'zod';
import { ExecError, type CommandRunner } from '../../../internal/exec/index.ts';
import { taintIdOf, type Taint } from '../../../internal/role/index.ts';
import { kubectl } from '../kubectl.ts';

/**
 * Annotation with the taints that `declareTaints` has set, as a JSON list of "KEY:EFFECT". For server-side apply, the
 * taints of a Node object are one value, so an apply would remove the taints that others have set.
 */
const ANNOTATION = 'cluster/taints';
/** A line per node: name, resource version, annotations and taints; the last two as JSON or empty. */
const FORMAT = `{range .items[*]}{.metadata.name}{"\\t"}{.metadata.resourceVersion}{"\\t"}{.metadata.annotations}{"\\t"}{.spec.taints}{"\\n"}{end}`;

const annotationsShape = z.record(z.string(), z.string());
const taintsShape = z.array(
  z.looseObject({ key: z.string(), value: z.string().optional(), effect: z.string() }),
);
const idsShape = z.array(z.string());

/** A taint as Kubernetes stores it. Further members, such as the time of a NoExecute taint, are kept. */
type StoredTaint = Readonly<z.infer<typeof taintsShape>[number]>;

/** The taints of a Node object, at one resource version. */
export interface NodeTaints {
  readonly name: string;
  readonly resourceVersion: string;
  readonly taints: readonly StoredTaint[];
  /** "KEY:EFFECT" of the taints that `declareTaints` has set. */
  readonly declared: readonly string[];
}

/** Lists the taints of all nodes. Needs admin.conf, which exists only on control planes. */
export async function listDeclaredTaints(
  commands: CommandRunner,
  signal: AbortSignal,
): Promise<readonly NodeTaints[]> {
  const args = ['get', 'nodes', '--output', `jsonpath=${FORMAT}`];
  const lines = (await kubectl(commands, args, signal)).split('\n').filter((line) => line !== '');
  return lines.map((line) => {
    const [name = '', resourceVersion = '', annotations = '', taints = ''] = line.split('\t');
    const all = annotations === '' ? {} : annotationsShape.parse(JSON.parse(annotations));
    return {
      name,
      resourceVersion,
      taints: taints === '' ? [] : taintsShape.parse(JSON.parse(taints)),
      declared: idsIn(all[ANNOTATION]),
    };
  });
}

/** Whether the taints that `declareTaints` has set on a node differ from the wanted taints. */
export function isOtherTaints(node: NodeTaints, wanted: readonly Taint[]): boolean {
  const ids = wanted.map(taintIdOf);
  const isSame = ids.length === node.declared.length && ids.every((id) => node.declared.includes(id));
  return !isSame || wanted.some((taint) => !node.taints.some((stored) => isEqual(stored, taint)));
}

/**
 * Sets these taints on a node, and removes those that an earlier call has set. Taints of others stay. Replaces the value of a taint
 * that somebody else has set. @returns false if the Node object has changed since it was listed; then nothing was written
 */
export async function declareTaints(
  commands: CommandRunner,
  node: NodeTaints,
  wanted: readonly Taint[],
  signal: AbortSignal,
): Promise<boolean> {
  const ours = new Set([...node.declared, ...wanted.map(taintIdOf)]);
  const others = node.taints.filter((stored) => !ours.has(idOf(stored)));
  const own = wanted.map(
    (taint) => node.taints.find((stored) => isEqual(stored, taint)) ?? storedFrom(taint),
  );
  const taints = [...others, ...own];
  const declared = wanted.length === 0 ? null : JSON.stringify(wanted.map(taintIdOf));
  const patch = {
    metadata: { resourceVersion: node.resourceVersion, annotations: { [ANNOTATION]: declared } },
    spec: { taints: taints.length === 0 ? null : taints },
  };
  const args = ['patch', 'node', node.name, '--type', 'merge', '--patch', JSON.stringify(patch)];
  try {
    await kubectl(commands, args, signal);
    return true;
  } catch (error) {
    if (error instanceof ExecError && /the object has been modified|NotFound/.test(error.message))
      return false;
    throw error;
  }
}

/** An annotation that somebody else has written in another format counts as empty. */
function idsIn(text: string | undefined): readonly string[] {
  if (text === undefined) return [];
  try {
    return idsShape.parse(JSON.parse(text));
  } catch {
    return [];
  }
}

function idOf({ key, effect }: StoredTaint): string {
  return `${key}:${effect}`;
}

function isEqual(stored: StoredTaint, { key, value, effect }: Taint): boolean {
  return stored.key === key && stored.effect === effect && (stored.value ?? '') === value;
}

function storedFrom({ key, value, effect }: Taint): StoredTaint {
  return { key, ...(value === '' ? {} : { value }), effect };
}
