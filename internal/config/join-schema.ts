import { z } from 'zod';
import { DNS_LABEL } from '../endpoint/index.ts';
import {
  isReservedTaint,
  LABEL_KEY,
  LABEL_VALUE,
  MAX_TAINTS,
  TAINT_EFFECTS,
  taintIdOf,
  type Taint,
} from '../role/index.ts';
import { DEFAULTS } from './defaults.ts';

const name = z.string().regex(DNS_LABEL, 'lower-case letters, digits and dashes, like “worker-1”');

const machine = z.strictObject({
  identity: z
    .string()
    .regex(
      /^(tpm-ek|snp-chip|snp-csp|tdx-platform|machine-key):[0-9a-f]{16,128}$/,
      'the identity as in `cluster node ls --joins`, like “tpm-ek:” and 64 lower-case hex digits',
    )
    .describe(
      'Hardware identity of the machine. A listed identity is trusted without an endorsement of its manufacturer.',
    ),
  name: name.describe('Name of the node.'),
  roles: z
    .array(z.enum(['control-plane', 'worker']))
    .min(1)
    .default(['worker'])
    .describe('Roles of the node.'),
  labels: z
    .record(z.string().regex(LABEL_KEY, 'a label’s key'), z.string().regex(LABEL_VALUE, 'a label’s value'))
    .default({})
    .describe('Labels of the node.'),
  taints: z
    .array(
      z.strictObject({
        key: z
          .string()
          .regex(LABEL_KEY, 'a taint’s key')
          .refine(
            (key) => !isReservedTaint(key),
            'a key outside of kubernetes.io and k8s.io, because those taints belong to Kubernetes',
          )
          .describe('Key, like the key of a label.'),
        value: z.string().regex(LABEL_VALUE, 'a taint’s value').default('').describe('Value; may be empty.'),
        effect: z.enum(TAINT_EFFECTS).describe('What the taint does to pods that do not tolerate it.'),
      }),
    )
    .max(MAX_TAINTS)
    .superRefine(checkTaints)
    // No default: older releases do not know this key.
    .optional()
    .describe('Taints of the node.'),
});

/** `join:` of `cluster.yaml`: which machines may join, with which names and roles. */
export const joinSchema = z.strictObject({
  policy: z
    .enum(['approve', 'inventory', 'auto'])
    .default(DEFAULTS.joinPolicy)
    .describe(
      'Which machines are admitted: machines that an operator approves (`approve`), machines in the list below (`inventory`), or, as workers, all machines with evidence of the profile `measured` (`auto`).',
    ),
  inventory: z
    .array(machine)
    .max(4096)
    .default([])
    .superRefine(checkUnique)
    .describe('Expected machines. They are admitted under every policy.'),
});

/** The parsed section `join`. */
export type JoinConfig = z.output<typeof joinSchema>;
/** One expected machine. */
export type InventoryMachine = JoinConfig['inventory'][number];

function checkUnique(
  machines: readonly { readonly identity: string; readonly name: string }[],
  context: z.RefinementCtx,
): void {
  for (const key of ['identity', 'name'] as const) {
    const seen = new Set<string>();
    machines.forEach((each, index) => {
      if (seen.has(each[key])) {
        const message = `unique: ${key} ${each[key]} is in the list already`;
        context.addIssue({ code: 'custom', path: [index, key], message });
      }
      seen.add(each[key]);
    });
  }
}

function checkTaints(taints: readonly Pick<Taint, 'key' | 'effect'>[], context: z.RefinementCtx): void {
  const seen = new Set<string>();
  taints.forEach((taint, index) => {
    const id = taintIdOf(taint);
    if (seen.has(id))
      context.addIssue({
        code: 'custom',
        path: [index],
        message: `unique: taint ${id} is in the list already`,
      });
    seen.add(id);
  });
}
