import { z } from 'zod';
import { DNS_NAME } from '../endpoint/index.ts';
import { NODE_ID } from '../pki/index.ts';

/** The largest number of machines that programs tell one another to refuse. */
export const MAX_KNOWN_MACHINES = 4_096;

/**
 * A machine that a cluster refuses until an owner readmits it, as workspaces and nodes know it. They tell it to a restored cluster, whose
 * backup may be older than the removal.
 */
export const knownMachineShape = z.object({
  /** "tpm-ek:90ab…", or "machine-key:90ab…" of the node key. */
  identity: z.string().regex(/^[a-z0-9-]{1,32}:[0-9a-f]{16,256}$/),
  /** The node that it was last. */
  nodeId: z.string().regex(NODE_ID),
  name: z.string().regex(DNS_NAME),
});

/** See `knownMachineShape`. */
export type KnownMachine = Readonly<z.infer<typeof knownMachineShape>>;
