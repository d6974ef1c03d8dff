import { z } from 'zod';
import { LocalMachineError } from '../errors.ts';

/** What is bind-mounted into a node beside its own disk. */
const bind = z.strictObject({
  source: z.string(),
  target: z.string(),
  readOnly: z.boolean(),
});

const nodeRecord = z.strictObject({
  version: z.literal(1),
  name: z.string(),
  address: z.string(),
  /** Lower directories of the root file system, top first. */
  layers: z.array(z.string()).min(1),
  binds: z.array(bind),
  /** Files shown instead of the kernel's below /proc, by relative path: `swaps`, `sys/vm/panic_on_oom`. */
  procFiles: z.record(z.string(), z.string()),
  /** Size of the disk that carries all of the node's data; the host's own when absent. */
  diskBytes: z.int().positive().optional(),
});

/** A node as it was made; written before anything of it exists. */
export type LocalNodeRecord = Readonly<z.infer<typeof nodeRecord>>;

export function parseLocalNodeRecord(path: string, bytes: Uint8Array): LocalNodeRecord {
  try {
    return nodeRecord.parse(JSON.parse(new TextDecoder().decode(bytes)));
  } catch (cause) {
    throw new LocalMachineError('localmachines-invalid-record', `reading ${path}`, { cause });
  }
}
