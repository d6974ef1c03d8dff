import { z } from 'zod';
import { LocalMachineError } from '../errors.ts';

/** A bind mount into a node. */
const bind = z.strictObject({
  source: z.string(),
  target: z.string(),
  readOnly: z.boolean(),
});

const members = z.strictObject({
  version: z.literal(1),
  name: z.string(),
  /** The address at which other machines reach this one. */
  address: z.string(),
  /** The second address in a cluster with both families. */
  ipv4Address: z.string().optional(),
  ipv6Address: z.string().optional(),
  /** Lower directories of the overlay, top first. A virtual machine has none. */
  layers: z.array(z.string()),
  binds: z.array(bind),
  /** Files that replace files of the kernel below /proc, by relative path: `swaps`, `sys/vm/panic_on_oom`. */
  procFiles: z.record(z.string(), z.string()),
  /** Size of a tmpfs with the data of the node; default: on the disk of the host. */
  diskBytes: z.int().positive().optional(),
  /** Of a virtual machine; undefined: the machine is a container. */
  vm: z.strictObject({ memoryMib: z.int().positive() }).optional(),
});
const nodeRecord = members.refine(({ layers, vm }) => (vm === undefined) === layers.length > 0, {
  path: ['layers'],
  message: 'at least one layer for a container, and none for a virtual machine',
});

/** The configuration of a node, `node.json`. */
export type LocalNodeRecord = Readonly<z.infer<typeof nodeRecord>>;

/** Parses `node.json`; `path` is for messages. @throws LocalMachineError `localmachines-invalid-record` */
export function parseLocalNodeRecord(path: string, bytes: Uint8Array): LocalNodeRecord {
  try {
    return nodeRecord.parse(JSON.parse(new TextDecoder().decode(bytes)));
  } catch (cause) {
    throw new LocalMachineError('localmachines-invalid-record', `reading ${path}`, { cause });
  }
}
