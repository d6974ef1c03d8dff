import { z } from 'zod';
import { DEFAULTS } from './defaults.ts';

const name = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'lower-case letters, digits and dashes, like “worker-1”');

/** Labels as Kubernetes has them: “[prefix/]name”. */
const LABEL = /^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;

const machine = z.strictObject({
  identity: z
    .string()
    .regex(
      /^(tpm-ek|snp-chip|snp-csp|tdx-platform|machine-key):[0-9a-f]{16,128}$/,
      'the machine as `cluster node ls --joins` names it, like “tpm-ek:” and 64 lower-case hex digits',
    )
    .describe('The machine’s hardware identity. Naming it here pins it: no manufacturer need vouch for it.'),
  name: name.describe('Name of the node.'),
  roles: z
    .array(z.enum(['control-plane', 'worker']))
    .min(1)
    .default(['worker'])
    .describe('What the node is to run.'),
  labels: z
    .record(z.string().regex(LABEL, 'a label’s key'), z.string().regex(LABEL_VALUE, 'a label’s value'))
    .default({})
    .describe('Labels of the node.'),
});

/** `join:` of `cluster.yaml`: who may become a member, under which name and with which roles. */
export const joinSchema = z.strictObject({
  policy: z
    .enum(['approve', 'inventory', 'auto'])
    .default(DEFAULTS.joinPolicy)
    .describe(
      'Who decides about machines that ask to join: an operator for each (`approve`), the list below (`inventory`), or evidence of the profile `measured` alone, for workers (`auto`).',
    ),
  inventory: z
    .array(machine)
    .max(4096)
    .default([])
    .superRefine(checkUnique)
    .describe('Machines that are expected. Counts under every policy.'),
});

export type JoinConfig = z.output<typeof joinSchema>;
export type InventoryMachine = JoinConfig['inventory'][number];

function checkUnique(
  machines: readonly { readonly identity: string; readonly name: string }[],
  context: z.RefinementCtx,
): void {
  for (const key of ['identity', 'name'] as const) {
    const seen = new Set<string>();
    machines.forEach((each, index) => {
      if (seen.has(each[key])) {
        const message = `another ${key}: ${each[key]} is in the list already`;
        context.addIssue({ code: 'custom', path: [index, key], message });
      }
      seen.add(each[key]);
    });
  }
}
