import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * A fault of the catalogue, which somebody wrote from public reports of users without knowing the checks of doctor.
 * `on` is a machine or the workstation.
 */
export interface Fault {
  readonly id: string;
  readonly on: string;
  readonly inject: string;
  readonly undo: string;
  /** Seconds until the fault shows, at most. */
  readonly waits: number;
  readonly cause: string;
  /** One of these expressions matches the cause that doctor names first if that is right. */
  readonly names: readonly string[];
  /** The node at which the cause is: the problem must be about it. */
  readonly at?: string;
  /** Faults of the same program on the same node, whose causes the expressions do not tell apart. */
  readonly alike?: readonly string[];
}

/** What doctor has found. */
export interface Problem {
  readonly code: string;
  readonly grade: string;
  readonly subject: string;
  readonly cause: string;
  readonly node?: string;
}

/** All faults of the catalogue. */
export async function readCatalogue(): Promise<readonly Fault[]> {
  const text = await readFile(join(import.meta.dirname, 'blind-faults.json'), 'utf8');
  return JSON.parse(text) as readonly Fault[];
}

/** Whether a problem names the cause of the fault, and the node that has it. */
export function isNamed({ names, at }: Fault, { subject, cause, node }: Problem): boolean {
  const text = `${subject}: ${cause}`;
  const isThere = at === undefined || node === at || new RegExp(`\\b${at}\\b`).test(text);
  return isThere && names.some((name) => new RegExp(name, 'i').test(text));
}

/** Returns a condition that holds only for the second of two answers in a row that are fine: one may be right by chance. */
export function twiceInARow<T>(isFine: (answer: T) => boolean): (answer: T) => boolean {
  let before = false;
  return (answer) => {
    const now = isFine(answer);
    const isBoth = now && before;
    before = now;
    return isBoth;
  };
}
