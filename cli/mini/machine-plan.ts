import { join } from 'node:path';
import { z } from 'zod';
import type { FilePort } from '../../internal/file/index.ts';
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

/** Minimum number of machines; undefined leaves the existing number. */
export interface WantedMachines {
  readonly controlPlanes?: number;
  readonly workers?: number;
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

/** The plan that an earlier run saved; empty if there is none. @throws MiniError `mini-plan-invalid` */
export async function readMachinePlan(
  files: Pick<FilePort, 'read'>,
  directory: string,
): Promise<readonly PlannedMachine[]> {
  const path = planPath(directory);
  const bytes = await files.read(path, MAX_BYTES);
  if (bytes === undefined) return [];
  try {
    return shape.parse(JSON.parse(Buffer.from(bytes).toString('utf8'))).machines;
  } catch (cause) {
    throw new MiniError('mini-plan-invalid', `reading ${path}`, { cause });
  }
}

/** Saves the plan before any machine is created, so that the command resumes after a crash even without its flags. */
export async function saveMachinePlan(
  files: Pick<FilePort, 'writeAtomic'>,
  directory: string,
  machines: readonly PlannedMachine[],
): Promise<void> {
  await files.writeAtomic(planPath(directory), `${JSON.stringify({ version: 1, machines }, undefined, 2)}\n`);
}

function planPath(directory: string): string {
  return join(directory, 'machines.json');
}
