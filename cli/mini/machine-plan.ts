import { join } from 'node:path';
import { z } from 'zod';
import type { FilePort } from '../../internal/file/index.ts';
import { MiniError } from './errors.ts';

const MAX_CONTROL_PLANES = 7;
const MAX_WORKERS = 20;
export const FIRST_MACHINE = 'n1';

export type MachineKind = 'control-plane' | 'worker';

/** A machine of a local cluster, as it is to be. */
export interface PlannedMachine {
  readonly name: string;
  readonly kind: MachineKind;
}

/** How many there are to be; what is not said stays as it is. */
export interface WantedMachines {
  readonly controlPlanes: number | undefined;
  readonly workers: number | undefined;
}

const MAX_BYTES = 64 * 1024;
const shape = z.strictObject({
  version: z.literal(1),
  machines: z
    .array(z.strictObject({ name: z.string(), kind: z.enum(['control-plane', 'worker']) }))
    .min(1)
    .max(MAX_CONTROL_PLANES + MAX_WORKERS),
});

/**
 * The machines that are there and those that are missing of what is wanted: control planes first, then workers, numbered
 * on from the last one. Never fewer than there are: a machine leaves a cluster by `cluster node remove`.
 */
export function planMachines(
  there: readonly PlannedMachine[],
  wanted: WantedMachines,
): readonly PlannedMachine[] {
  const machines = [...there];
  const grow = (kind: MachineKind, count: number): void => {
    while (machines.filter((each) => each.kind === kind).length < count)
      machines.push({ name: `n${machines.length + 1}`, kind });
  };
  grow('control-plane', wanted.controlPlanes ?? 1);
  grow('worker', wanted.workers ?? 0);
  return machines;
}

/** The plan as an earlier run wrote it down. A local cluster of before there were plans is one machine. */
export async function readMachinePlan(
  files: Pick<FilePort, 'read'>,
  folder: string,
): Promise<readonly PlannedMachine[]> {
  const path = planPath(folder);
  const bytes = await files.read(path, MAX_BYTES);
  if (bytes === undefined) return [];
  try {
    return shape.parse(JSON.parse(Buffer.from(bytes).toString('utf8'))).machines;
  } catch (cause) {
    throw new MiniError('mini-plan-invalid', `reading ${path}`, { cause });
  }
}

/** Before anything of a machine is made, so that the same command goes on after a crash, also without its flags. */
export async function saveMachinePlan(
  files: Pick<FilePort, 'writeAtomic'>,
  folder: string,
  machines: readonly PlannedMachine[],
): Promise<void> {
  await files.writeAtomic(planPath(folder), `${JSON.stringify({ version: 1, machines }, undefined, 2)}\n`);
}

function planPath(folder: string): string {
  return join(folder, 'machines.json');
}
