import { z } from 'zod';
import { DEFAULT_LOCK_PCR, MEASURED_VARIANTS } from '../attestation/index.ts';
import { PolicyError, policySchema, PolicyStore } from '../attestation/policy/index.ts';
import { CertificateCache, parsePem, X509Error } from '../attestation/x509/index.ts';
import { Asn1Error } from '../attestation/asn1/index.ts';

/** The kinds of evidence of machines. Operators have another kind, which is not configured here. */
const MACHINE_VARIANTS = [...MEASURED_VARIANTS, 'machine-key'] as const;
const MAX_CERTIFICATES = 8;

const certificate = z
  .string()
  .refine(isCertificates, 'one or more certificates in PEM (“-----BEGIN CERTIFICATE-----”)');

const manufacturers = z
  .strictObject({
    roots: z
      .array(certificate)
      .default([])
      .describe('Root certificates of the trusted TPM manufacturers. Default: none.'),
    intermediates: z
      .array(certificate)
      .default([])
      .describe('Intermediate certificates of the manufacturers.'),
    endorsementKeys: z
      .array(z.string().regex(/^[0-9a-f]{64}$/, 'SHA-256 of an endorsement key, 64 lower-case hex digits'))
      .default([])
      .describe('TPMs that are trusted by their endorsement key (SHA-256 of the SubjectPublicKeyInfo).'),
  })
  .prefault({});

/**
 * `attestation:` of `cluster.yaml`: which evidence machines send and which of it is accepted. There is no default: a configuration without
 * this section is invalid.
 */
export const attestationSchema = z
  .strictObject({
    variants: z
      .array(z.enum(MACHINE_VARIANTS, `one of ${MACHINE_VARIANTS.join(', ')}`))
      .min(1, 'at least one kind of evidence')
      .refine((all) => new Set(all).size === all.length, 'a list that has each kind at most once')
      .describe('Accepted kinds of evidence, preferred first.'),
    firstContact: z
      .enum(['endorsed', 'fingerprint'])
      .default('endorsed')
      .describe(
        'How the first machine is trusted. `endorsed`: its TPM has a certificate of one of the `manufacturers`. `fingerprint`: the operator confirms the fingerprint on its console; required for `machine-key`.',
      ),
    manufacturers,
    lockPcr: z
      .int()
      .min(8)
      .max(15)
      .default(DEFAULT_LOCK_PCR)
      .describe(
        'PCR that shows which cluster a machine belongs to; the same as `tpm.lockPcr` of its provisioning.',
      ),
    policy: z
      .looseObject({})
      .superRefine(checkPolicy)
      .optional()
      .describe(
        'Reference values and allowed machines (docs/attestation.md); required unless `machine-key` is the only variant.',
      ),
  })
  .superRefine(checkWhole);

export type AttestationConfig = z.output<typeof attestationSchema>;

/** The policy when `machine-key` is the only variant: only machines that the operator has named by fingerprint are accepted. */
export const KEYS_ONLY_POLICY = { name: 'keys-only', profile: 'identity', machines: 'any-proved' } as const;

/** Reports every problem at its position. The policy stays unparsed, because its hash is its version. */
function checkPolicy(policy: unknown, context: z.RefinementCtx): void {
  const parsed = policySchema.safeParse(policy);
  for (const issue of parsed.error?.issues ?? [])
    context.addIssue(issue as Parameters<typeof context.addIssue>[0]);
}

function checkWhole(config: AttestationConfig, context: z.RefinementCtx): void {
  const { variants, firstContact, manufacturers, policy } = config;
  const problem = (path: string, message: string): void =>
    context.addIssue({ code: 'custom', path: [path], message });
  if (variants.includes('machine-key') && firstContact !== 'fingerprint') {
    problem('firstContact', '“fingerprint”, because a `machine-key` is trusted by its fingerprint only');
  }
  const isTrusting = manufacturers.roots.length + manufacturers.endorsementKeys.length > 0;
  if (variants.includes('tpm') && firstContact === 'endorsed' && !isTrusting) {
    problem(
      'manufacturers',
      '`roots` or `endorsementKeys`, because an endorsed TPM needs a trusted manufacturer or key',
    );
  }
  const isKeysOnly = variants.every((variant) => variant === 'machine-key');
  if (policy === undefined && !isKeysOnly) problem('policy', `reference values for ${variants.join(', ')}`);
  if (policy === undefined || !policySchema.safeParse(policy).success) return;
  try {
    new PolicyStore({ variants, input: policy });
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    problem('policy', error.message);
  }
}

function isCertificates(text: string): boolean {
  try {
    return certificatesIn(text).length > 0;
  } catch (error) {
    if (error instanceof X509Error || error instanceof Asn1Error) return false;
    throw error;
  }
}

/** DER of each certificate of a PEM text. @throws X509Error, Asn1Error */
export function certificatesIn(text: string): readonly Uint8Array[] {
  const cache = new CertificateCache();
  const options = { label: 'CERTIFICATE', maxBlocks: MAX_CERTIFICATES, allowBlankLines: true } as const;
  return parsePem(text, options).map((der) => cache.parse(der).der);
}
