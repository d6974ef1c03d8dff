import { z } from 'zod';
import { DAY_MS } from '../clock/index.ts';
import { ED25519_KEY_BYTES } from '../crypto/index.ts';
import { ROLES, OPERATOR_ROLES } from '../role/index.ts';

/**
 * The kinds of documents that an owner signs. `policy`, `operators`, `owners`, `settings` and `keys` exist once in a cluster; a
 * `grant` exists per node, a `readmission` per machine. A new kind needs a line here, a lifetime and a shape below.
 */
export const DOCUMENT_KINDS = [
  'owners',
  'policy',
  'operators',
  'settings',
  'keys',
  'grant',
  'readmission',
] as const;
/** One of `DOCUMENT_KINDS`. */
export type DocumentKind = (typeof DOCUMENT_KINDS)[number];

/**
 * The time after its signature in which a document allows something new. A document that admits one machine is
 * short-lived. A document that defines trust in owners, operators or software is valid for as long as all owners may be
 * absent.
 */
export const DOCUMENT_LIFETIMES_MS: Readonly<Record<DocumentKind, number>> = {
  owners: 3650 * DAY_MS,
  policy: 365 * DAY_MS,
  operators: 365 * DAY_MS,
  settings: 3650 * DAY_MS,
  keys: 3650 * DAY_MS,
  grant: 7 * DAY_MS,
  readmission: 30 * DAY_MS,
};

/** The maximum number of owners that a cluster has at the same time. */
export const MAX_OWNERS = 16;
const MAX_OPERATORS = 256;

/** A raw Ed25519 public key in canonical base64. */
export const rawKey = z.string().refine((text) => {
  const raw = Buffer.from(text, 'base64');
  return raw.length === ED25519_KEY_BYTES && raw.toString('base64') === text;
}, 'base64 of 32 bytes expected');
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const fingerprint = z.string().regex(/^sha256:[0-9a-f]{64}$/);
/** A machine as inventories name it, e.g. `tpm-ek:HEX`. */
const identity = z.string().regex(/^[a-z0-9][a-z0-9+-]{0,31}:[0-9a-f]{16,128}$/);
const serial = z.int().min(0);

/** Replaces the set of owners. */
const ownersBody = z.strictObject({
  keys: z.array(rawKey).min(1).max(MAX_OWNERS).refine(areUnique, 'the same key appears twice'),
});

/** The configuration that says which machines and software are trusted, by the hash of its exact bytes. */
const policyBody = z.strictObject({ configurationSha256: sha256 });

/**
 * The settings that every machine gets when it joins, with the manifest of the programs that it runs, by the hash of their
 * canonical JSON.
 */
const settingsBody = z.strictObject({ settingsSha256: sha256 });

const digests = z.record(z.string().regex(/^[a-z0-9-]{1,64}$/), sha256);

/**
 * A generation of the keys that control planes share, by the hashes of the replaced public keys and of the new public
 * keys (`SignedKeys` in internal/keyset). The first generation, created with the cluster, has no document.
 */
const keysBody = z.strictObject({ generation: z.int().min(2), previous: digests, next: digests });

/** Replaces the set of operators. */
const operatorsBody = z.strictObject({
  operators: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[a-z0-9]([a-z0-9._@-]{0,62}[a-z0-9])?$/),
        /** Fingerprint of the operator's key. */
        fingerprint,
        role: z.enum(OPERATOR_ROLES),
      }),
    )
    .min(1)
    .max(MAX_OPERATORS)
    .refine((all) => areUnique(all.map(({ name }) => name)), 'the same name appears twice')
    .refine((all) => areUnique(all.map((each) => each.fingerprint)), 'the same key appears twice'),
});

/**
 * The roles that one node on one machine may have. A grant without control-plane roles withdraws the control-plane
 * roles of an earlier grant.
 */
const grantBody = z.strictObject({
  /** The machine, independent of its node key. */
  identity,
  nodeId: z.string().regex(/^[0-9a-z-]{1,64}$/),
  /** Fingerprint of the node key. */
  fingerprint,
  roles: z.array(z.enum(ROLES)).min(1).refine(areUnique, 'the same role appears twice'),
  /**
   * The lowest serial of each kind of document that a new node may accept, so that nobody can show it old
   * documents.
   */
  floors: z.strictObject({ owners: serial, policy: serial, operators: serial }),
});

/** Allows a removed machine to enrol again. */
const readmissionBody = z.strictObject({
  identity,
  /** Number of the newest removal of the machine. The document lifts this removal and no later one. */
  removal: z.int().positive(),
});

/** The schema of a document's body, by kind. */
export const bodyShapes = {
  owners: ownersBody,
  policy: policyBody,
  operators: operatorsBody,
  settings: settingsBody,
  keys: keysBody,
  grant: grantBody,
  readmission: readmissionBody,
} as const satisfies Readonly<Record<DocumentKind, z.ZodType>>;

/** The body of a document, by kind. */
export type DocumentBodies = { readonly [K in DocumentKind]: z.infer<(typeof bodyShapes)[K]> };

/**
 * The subject of a document: the node of a grant, or the machine of a readmission; empty for kinds that exist once. A
 * document replaces the earlier documents of the same kind and subject. Serials are compared only among documents of
 * the same kind and subject.
 */
export function subjectOf({ body }: { readonly body: DocumentBodies[DocumentKind] }): string {
  if ('nodeId' in body) return body.nodeId;
  return 'identity' in body ? body.identity : '';
}

function areUnique(values: readonly string[]): boolean {
  return new Set(values).size === values.length;
}
