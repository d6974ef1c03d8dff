import { join } from 'node:path';
import { z } from 'zod';
import type { FilePort } from '../../internal/file/index.ts';
import type { MachineType } from '../../internal/localmachines/index.ts';
import { MiniError } from './errors.ts';

const MAX_CONTROL_PLANES = 7;
const MAX_WORKERS = 20;
/** Name of the machine that gets `init`. */
export const FIRST_MACHINE = 'n1';

/** Main role of a machine. */
export type MachineKind = 'control-plane' | 'worker';

/** A machine of a local cluster. */
export interface PlannedMachine {
  readonly name: string;
  readonly kind: MachineKind;
}

/** The machines of a local cluster, and what they are. */
export interface MachinePlan {
  readonly machines: readonly PlannedMachine[];
  readonly type: MachineType;
}

/** Minimum number of machines; undefined leaves the existing number. */
export interface WantedMachines {
  readonly controlPlanes?: number;
  readonly workers?: number;
}

const MAX_BYTES = 64 * 1024;
const shape = z.strictObject({
  version: z.literal(1),
  type: z.enum(['container', 'vm']).default('container'),
  machines: z
    .array(z.strictObject({ name: z.string(), kind: z.enum(['control-plane', 'worker']) }))
    .min(1)
    .max(MAX_CONTROL_PLANES + MAX_WORKERS),
});

/**
 * Plans the existing machines and the missing ones: control planes first, then workers, numbered
 * consecutively. Never removes a machine; `cluster node remove` does that.
 */
export function planMachines(
  existing: readonly PlannedMachine[],
  wanted: WantedMachines,
): readonly PlannedMachine[] {
  const machines = [...existing];
  const grow = (kind: MachineKind, count: number): void => {
    while (machines.filter((each) => each.kind === kind).length < count)
      machines.push({ name: `n${machines.length + 1}`, kind });
  };
  grow('control-plane', wanted.controlPlanes ?? 1);
  grow('worker', wanted.workers ?? 0);
  return machines;
}

/**
 * What the machines of a local cluster are: those of an existing cluster stay what they are. @param existing undefined: a new cluster
 * @throws MiniError `mini-machines-other`
 */
export function chooseType(
  name: string,
  existing: MachinePlan | undefined,
  wanted: MachineType | undefined,
): MachineType {
  if (existing === undefined) return wanted ?? 'container';
  if (wanted === undefined || wanted === existing.type) return existing.type;
  throw new MiniError(
    'mini-machines-other',
    `the machines of local cluster ${name} have the type ${existing.type}, so --machines ${wanted} does not fit`,
  );
}

/** The plan that an earlier run saved; undefined if there is none. @throws MiniError `mini-plan-invalid` */
export async function readMachinePlan(
  files: Pick<FilePort, 'read'>,
  directory: string,
): Promise<MachinePlan | undefined> {
  const path = planPath(directory);
  const bytes = await files.read(path, MAX_BYTES);
  if (bytes === undefined) return undefined;
  try {
    const { machines, type } = shape.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
    return { machines, type };
  } catch (cause) {
    throw new MiniError('mini-plan-invalid', `reading ${path}`, { cause });
  }
}

/** Saves the plan before any machine is created, so that the command resumes after a crash even without its flags. */
export async function saveMachinePlan(
  files: Pick<FilePort, 'writeAtomic'>,
  directory: string,
  plan: MachinePlan,
): Promise<void> {
  await files.writeAtomic(planPath(directory), `${JSON.stringify({ version: 1, ...plan }, undefined, 2)}\n`);
}

function planPath(directory: string): string {
  return join(directory, 'machines.json');
}
