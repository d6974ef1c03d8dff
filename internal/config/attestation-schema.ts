import { z } from 'zod';
import { DEFAULT_LOCK_PCR } from '../attestation/index.ts';
import { PolicyError, policySchema, PolicyStore } from '../attestation/policy/index.ts';
import { CertificateCache, parsePem, X509Error } from '../attestation/x509/index.ts';
import { Asn1Error } from '../attestation/asn1/index.ts';

/** Kinds of evidence that machines show. The owner's own kind is not among them: it is the operator's. */
const MACHINE_VARIANTS = ['tpm', 'sev-snp', 'tdx', 'snp+tpm', 'tdx+tpm', 'machine-key'] as const;
const MAX_CERTIFICATES = 8;

const certificate = z
  .string()
  .refine(isCertificates, 'one or more certificates in PEM, from “-----BEGIN CERTIFICATE-----” on');

const manufacturers = z
  .strictObject({
    roots: z
      .array(certificate)
      .default([])
      .describe('Root certificates of TPM manufacturers. Nobody is trusted unless written here.'),
    intermediates: z.array(certificate).default([]).describe('Certificates between those and the TPMs.'),
    endorsementKeys: z
      .array(z.string().regex(/^[0-9a-f]{64}$/, 'SHA-256 of an endorsement key, 64 lower-case hex digits'))
      .default([])
      .describe('TPMs that are trusted by their own key (SHA-256 of its SubjectPublicKeyInfo).'),
  })
  .prefault({});

/**
 * Which evidence machines show and what of it passes. There is no default: a cluster whose configuration does not say how
 * machines prove themselves does not start.
 */
export const attestationSchema = z
  .strictObject({
    variants: z
      .array(z.enum(MACHINE_VARIANTS, `one of ${MACHINE_VARIANTS.join(', ')}`))
      .min(1, 'at least one kind of evidence')
      .refine((all) => new Set(all).size === all.length, 'each kind once')
      .describe('Kinds of evidence that machines may show, best first.'),
    firstContact: z
      .enum(['endorsed', 'fingerprint'])
      .default('endorsed')
      .describe(
        '`endorsed`: a manufacturer of `manufacturers` vouches for the TPM of the first machine. `fingerprint`: the operator does, by the fingerprint that the machine shows on its console; needed for `machine-key`, which is nothing but that.',
      ),
    manufacturers,
    lockPcr: z
      .int()
      .min(8)
      .max(15)
      .default(DEFAULT_LOCK_PCR)
      .describe('The PCR that shows which cluster a machine is bound to; `tpm.lockPcr` of its provisioning.'),
    policy: z
      .looseObject({})
      .superRefine(checkPolicy)
      .optional()
      .describe(
        'Reference values and allowed machines (docs/attestation.md); needed unless machines show keys only.',
      ),
  })
  .superRefine(checkWhole);

export type AttestationConfig = z.output<typeof attestationSchema>;

/** What a list of nothing but `machine-key` means: whoever is named by fingerprint passes, and nobody else. */
export const KEYS_ONLY_POLICY = { name: 'keys-only', profile: 'identity', machines: 'any-proved' } as const;

/** Every problem where it stands. The policy stays as it is written: its readers parse it, and its hash is its version. */
function checkPolicy(policy: unknown, context: z.RefinementCtx): void {
  const parsed = policySchema.safeParse(policy);
  for (const { path, message } of parsed.error?.issues ?? []) {
    context.addIssue({ code: 'custom', path, message });
  }
}

function checkWhole(config: AttestationConfig, context: z.RefinementCtx): void {
  const { variants, firstContact, manufacturers, policy } = config;
  const problem = (path: string, message: string): void =>
    context.addIssue({ code: 'custom', path: [path], message });
  if (variants.includes('machine-key') && firstContact !== 'fingerprint') {
    problem('firstContact', '“fingerprint”, because `machine-key` proves nothing without one');
  }
  const isTrusting = manufacturers.roots.length + manufacturers.endorsementKeys.length > 0;
  if (variants.includes('tpm') && firstContact === 'endorsed' && !isTrusting) {
    problem('manufacturers', '`roots` or `endorsementKeys`, because nobody else vouches for a TPM');
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

/** DER of each certificate of a PEM text; throws for what is none. */
export function certificatesIn(text: string): readonly Uint8Array[] {
  const cache = new CertificateCache();
  const options = { label: 'CERTIFICATE', maxBlocks: MAX_CERTIFICATES, allowBlankLines: true } as const;
  return parsePem(text, options).map((der) => cache.parse(der).der);
}
