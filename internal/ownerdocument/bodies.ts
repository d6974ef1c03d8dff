import { z } from 'zod';
import { OPERATOR_ROLES } from '../records/index.ts';
import { ROLES } from '../role/index.ts';

/**
 * What an owner can sign. `policy`, `operators` and `owners` exist once in a cluster; a `grant` exists per node, a
 * `readmission` per machine. A new kind is a line here and a shape below.
 */
export const DOCUMENT_KINDS = ['owners', 'policy', 'operators', 'grant', 'readmission'] as const;
export type DocumentKind = (typeof DOCUMENT_KINDS)[number];

export const MAX_OWNERS = 16;
const MAX_OPERATORS = 256;
const RAW_KEY_BYTES = 32;

/** Raw Ed25519 in the one base64 text that its bytes have. */
export const rawKey = z.string().refine((text) => {
  const raw = Buffer.from(text, 'base64');
  return raw.length === RAW_KEY_BYTES && raw.toString('base64') === text;
}, 'the base64 text of 32 bytes');
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const fingerprint = z.string().regex(/^sha256:[0-9a-f]{64}$/);
/** As inventories name a machine. */
const identity = z.string().regex(/^[a-z0-9][a-z0-9+-]{0,31}:[0-9a-f]{16,128}$/);
const serial = z.int().min(0);

/** The whole set of owners from now on. */
const ownersBody = z.strictObject({
  keys: z.array(rawKey).min(1).max(MAX_OWNERS).refine(areUnique, 'each key once'),
});

/** The configuration that says who and what is trusted, by the hash of its exact bytes. */
const policyBody = z.strictObject({ configurationSha256: sha256 });

/** Everybody who may administer: the whole set from now on. */
const operatorsBody = z.strictObject({
  operators: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[a-z0-9]([a-z0-9._@-]{0,62}[a-z0-9])?$/),
        /** Of the operator's key. */
        fingerprint,
        role: z.enum(OPERATOR_ROLES),
      }),
    )
    .min(1)
    .max(MAX_OPERATORS)
    .refine((all) => areUnique(all.map(({ name }) => name)), 'each name once')
    .refine((all) => areUnique(all.map((each) => each.fingerprint)), 'each key once'),
});

/**
 * The roles that one node on one machine may have. A grant of roles without a control plane takes the place back that an
 * earlier grant gave.
 */
const grantBody = z.strictObject({
  /** The machine, whatever its node key is. */
  identity,
  nodeId: z.string().regex(/^[0-9a-z-]{1,64}$/),
  /** Of the node key. */
  fingerprint,
  roles: z.array(z.enum(ROLES)).min(1).refine(areUnique, 'each role once'),
  /** The lowest serials that a fresh node may accept: otherwise it could be shown an old set. */
  floors: z.strictObject({ owners: serial, policy: serial, operators: serial }),
});

/** A machine that was removed may enrol again. */
const readmissionBody = z.strictObject({
  identity,
  /** Lifts this removal of the machine and those before it, no later one. */
  removal: z.int().positive(),
});

export const bodyShapes = {
  owners: ownersBody,
  policy: policyBody,
  operators: operatorsBody,
  grant: grantBody,
  readmission: readmissionBody,
} as const satisfies Readonly<Record<DocumentKind, z.ZodType>>;

export type DocumentBodies = { readonly [K in DocumentKind]: z.infer<(typeof bodyShapes)[K]> };

/**
 * Documents of one kind and subject replace one another; serials are compared within both. Empty for kinds that exist
 * once.
 */
export function subjectOf({ body }: { readonly body: DocumentBodies[DocumentKind] }): string {
  if ('nodeId' in body) return body.nodeId;
  return 'identity' in body ? body.identity : '';
}

function areUnique(values: readonly string[]): boolean {
  return new Set(values).size === values.length;
}
