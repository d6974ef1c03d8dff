import { z } from 'zod';
import { TDX_TCB_STATUSES } from './rules.ts';

/**
 * Intel's signed documents (PCS API v4: `/tdx/certification/v4/tcb` and `/qe/identity`). The signature over the JSON text is
 * verified before parsing, so that unknown keys are additions by Intel and are ignored.
 */
const hex = (bytes: number) =>
  z
    .string()
    .regex(new RegExp(`^[0-9A-Fa-f]{${2 * bytes}}$`))
    .transform((text) => new Uint8Array(Buffer.from(text, 'hex')));
const date = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  .transform((text) => Date.parse(text))
  .refine((ms) => !Number.isNaN(ms));
const svn = z.number().int().min(0).max(0xffff);
const status = z.enum(TDX_TCB_STATUSES).refine((each) => !each.startsWith('TDRelaunch'));
const advisories = z.array(z.string()).default([]);
const components = z
  .array(z.object({ svn: z.number().int().min(0).max(255) }).transform((component) => component.svn))
  .length(16);

const validity = {
  issueDate: date,
  nextUpdate: date,
  tcbEvaluationDataNumber: z.number().int().min(0),
};

const isvLevels = z.array(
  z.object({ tcb: z.object({ isvsvn: svn }), tcbDate: date, tcbStatus: status, advisoryIDs: advisories }),
);

const module = { mrsigner: hex(48), attributes: hex(8), attributesMask: hex(8) };

/** TCB info: the TCB levels of a platform. */
export const tcbInfoSchema = z.object({
  id: z.literal('TDX'),
  version: z.literal(3),
  ...validity,
  fmspc: hex(6),
  pceId: hex(2),
  tcbType: z.literal(0),
  tdxModule: z.object(module),
  tdxModuleIdentities: z.array(z.object({ id: z.string(), ...module, tcbLevels: isvLevels })).default([]),
  tcbLevels: z.array(
    z.object({
      tcb: z.object({ sgxtcbcomponents: components, tdxtcbcomponents: components, pcesvn: svn }),
      tcbDate: date,
      tcbStatus: status,
      advisoryIDs: advisories,
    }),
  ),
});

/** QE identity: the accepted quoting enclaves and their TCB levels. */
export const qeIdentitySchema = z.object({
  id: z.literal('TD_QE'),
  version: z.union([z.literal(2), z.literal(3)]),
  ...validity,
  miscselect: hex(4),
  miscselectMask: hex(4),
  attributes: hex(16),
  attributesMask: hex(16),
  mrsigner: hex(32),
  isvprodid: svn,
  tcbLevels: isvLevels,
});

/** A parsed TCB info. */
export type TcbInfo = z.infer<typeof tcbInfoSchema>;
/** A parsed QE identity. */
export type QeIdentity = z.infer<typeof qeIdentitySchema>;
/** A TCB level of a platform. */
export type TcbLevel = TcbInfo['tcbLevels'][number];
/** A TCB level of a TDX module or quoting enclave. */
export type IsvLevel = QeIdentity['tcbLevels'][number];

/** The fields that both documents have. */
export type IntelDocument = Pick<TcbInfo, 'issueDate' | 'nextUpdate' | 'tcbEvaluationDataNumber'>;
