import { z } from 'zod';
import { DAY_MS } from '../../clock/index.ts';
import { SNP_PRODUCTS } from '../snp/product.ts';
import { RESETTABLE_PCRS } from '../tpm/rules.ts';
import { TDX_TCB_STATUSES } from '../tdx/rules.ts';

/*
 * The policy as operators write it. Unknown keys are refused. Defaults are strict: everything that extends trust (debug,
 * migration, any machine, `warnOnly`) must be written explicitly.
 */

const hex = (bytes: number) =>
  z.string().regex(new RegExp(`^[0-9a-f]{${2 * bytes}}$`), `${bytes} bytes in lower-case hex expected`);
const byte = z.number().int().min(0).max(255);
const ageDays = z
  .number()
  .int()
  .min(1)
  .max(366)
  .transform((days) => days * DAY_MS);
const oneOrMore = <T extends z.ZodType>(item: T) =>
  z.union([item.transform((value) => [value]), z.array(item).min(1)]);

/** PCRs by index or name (SHA-256 bank); the SHA-384 registers of confidential machines by name. */
const REGISTER_BYTES: readonly { readonly name: RegExp; readonly bytes: number }[] = [
  { name: /^pcr([0-9]|1[0-9]|2[0-3])$/, bytes: 32 },
  { name: /^(launch|mrtd|rtmr[0-3])$/, bytes: 48 },
];

const register = z.strictObject({
  expected: oneOrMore(
    z.string().regex(/^([0-9a-f]{64}|[0-9a-f]{96})$/, 'a register value in lower-case hex expected'),
  ),
  warnOnly: z.literal(true).optional(),
});

const registers = z
  .record(z.string(), register)
  .superRefine((all, context) => {
    for (const name of Object.keys(all))
      if (name !== registerName(name) && registerName(name) in all)
        context.addIssue({
          code: 'custom',
          path: [registerName(name)],
          message: 'duplicate register',
        });
  })
  .transform((all) =>
    Object.fromEntries(Object.entries(all).map(([name, rule]) => [registerName(name), rule])),
  )
  .superRefine((all, context) => {
    for (const [name, { expected }] of Object.entries(all)) {
      const bytes = REGISTER_BYTES.find((each) => each.name.test(name))?.bytes;
      const isRight = bytes !== undefined && expected.every((value) => value.length === 2 * bytes);
      const message = bytes === undefined ? 'unknown register' : `${bytes} bytes expected`;
      if (RESETTABLE_PCRS.some((each) => name === `pcr${each}`)) {
        context.addIssue({ code: 'custom', path: [name], message: 'any software can reset this register' });
      }
      if (!isRight) context.addIssue({ code: 'custom', path: [name], message });
    }
  });

/** A PCR can be written by index (`7`) or by name (`pcr7`). */
function registerName(written: string): string {
  return /^\d+$/.test(written) ? `pcr${written}` : written;
}

const machine = z.string().regex(
  // A provider id (snp-csp) is text from a certificate. Operators write it as `cluster attest explain` prints it.
  /^((tpm-ek|tpm-ak|snp-chip|tdx-platform|owner-key|machine-key):[0-9a-zA-Z.-]+|snp-csp:[\x20-\x7e]{1,200})$/,
  'kind:id expected',
);

const pcr = z.number().int().min(0).max(23);

const tpm = z.strictObject({
  attestationKeys: z.enum(['enrolled', 'enrolling']).default('enrolled'),
  requiredPcrs: z
    .array(pcr)
    .refine(
      (pcrs) => pcrs.some((each) => !RESETTABLE_PCRS.includes(each)),
      'at least one PCR other than 16 and 23 expected',
    ),
  requireSafeClock: z.boolean().default(false),
  eventLog: z.enum(['required', 'optional']).default('required'),
  loggedPcrs: z.array(pcr).default([0, 1, 2, 3, 4, 5, 6, 7]),
});

const snpTcb = z.strictObject({
  fmc: byte.exactOptional(),
  bootloader: byte,
  tee: byte,
  snp: byte,
  microcode: byte,
});

const snp = z.strictObject({
  minimumTcb: z
    .partialRecord(z.enum(SNP_PRODUCTS as readonly ['Milan', 'Genoa', 'Turin']), snpTcb)
    .refine((all) => Object.keys(all).length > 0, 'at least one product expected')
    .refine((all) => all.Turin === undefined || all.Turin.fmc !== undefined, 'Turin needs fmc')
    .refine((all) => all.Milan?.fmc === undefined && all.Genoa?.fmc === undefined, 'only Turin has fmc'),
  allowDebug: z.boolean().default(false),
  allowMigrationAgent: z.boolean().default(false),
  allowSmt: z.boolean(),
  allowProvisionalFirmware: z.boolean().default(false),
  maxVmpl: z.union([z.literal(0), z.literal(1), z.literal(2), z.literal(3)]).default(0),
  cspIds: z.array(z.string().min(1)).default([]),
  authorKeys: z.array(hex(48)).min(1).exactOptional(),
  idKeys: z.array(hex(48)).min(1).exactOptional(),
  hostData: z.array(hex(32)).min(1).exactOptional(),
  revocation: z.enum(['required', 'optional']).default('required'),
  maxCollateralAgeDays: ageDays,
});

const field = z.union([z.literal('any'), z.literal('zero'), z.array(hex(48)).min(1)]).default('zero');

const tdx = z.strictObject({
  tcbStatuses: z
    .array(z.enum(TDX_TCB_STATUSES).exclude(['Revoked']))
    .min(1)
    .default(['UpToDate']),
  minimumEvaluationNumber: z.number().int().min(0),
  maxCollateralAgeDays: ageDays,
  allowDebug: z.boolean().default(false),
  allowMigration: z.boolean().default(false),
  allowServiceTd: z.boolean().default(false),
  requireSeptVeDisable: z.boolean().default(true),
  mrConfigId: field,
  mrOwner: field,
  mrOwnerConfig: field,
  eventLog: z.enum(['required', 'optional']).default('optional'),
});

/** The schema of a policy. */
export const policySchema = z.strictObject({
  /** The name that the operator gave to this set of values, e.g. the name of a release. */
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'a short name without spaces expected'),
  profile: z.enum(['measured', 'identity']),
  registers: registers.default({}),
  machines: z.union([z.enum(['any', 'any-proved']), z.array(machine).min(1)]),
  tpm: tpm.exactOptional(),
  'sev-snp': snp.exactOptional(),
  tdx: tdx.exactOptional(),
});

/** A policy that matches the schema. */
export type WrittenPolicy = z.infer<typeof policySchema>;
