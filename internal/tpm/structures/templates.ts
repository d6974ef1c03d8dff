import { ALG, CURVES, hashId, type CurveName, type HashName } from '../algorithms.ts';
import { WireWriter } from '../wire.ts';
import { OBJECT_ATTRIBUTE as BIT } from './public.ts';

/** A public area without `unique`. The TPM fills that field in and returns the complete public area. */
export type Template = Uint8Array;

interface EccTemplate {
  readonly nameHash: HashName;
  readonly attributes: number;
  readonly authPolicy?: Uint8Array;
  /** Present for storage and endorsement keys, absent for signing keys. */
  readonly aesBits?: 128 | 256;
  readonly signatureHash?: HashName;
  readonly curve: CurveName;
  /** Input for deriving a primary key (Part 1, 27.2): another value gives another key from the same seed. */
  readonly uniqueX?: Uint8Array;
  readonly uniqueY?: Uint8Array;
}

const EMPTY = new Uint8Array();

function eccTemplate(options: EccTemplate): Template {
  const writer = new WireWriter()
    .u16(ALG.ecc)
    .u16(hashId(options.nameHash))
    .u32(options.attributes)
    .sized(options.authPolicy ?? EMPTY);
  writeSymmetric(writer, options.aesBits);
  if (options.signatureHash === undefined) writer.u16(ALG.null);
  else writer.u16(ALG.ecdsa).u16(hashId(options.signatureHash));
  return writer
    .u16(CURVES[options.curve].id)
    .u16(ALG.null)
    .sized(options.uniqueX ?? EMPTY)
    .sized(options.uniqueY ?? EMPTY)
    .finish();
}

function writeSymmetric(writer: WireWriter, aesBits: 128 | 256 | undefined): void {
  if (aesBits === undefined) writer.u16(ALG.null);
  else writer.u16(ALG.aes).u16(aesBits).u16(ALG.cfb);
}

const FIXED = BIT.fixedTpm | BIT.fixedParent | BIT.sensitiveDataOrigin;

/** PolicyA: PolicySecret(TPM_RH_ENDORSEMENT), SHA-256 (TCG EK Credential Profile 2.5, B.3.3). */
export const EK_POLICY_A_SHA256 = fromHex('837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa');
/** The branches of PolicyB, SHA-384 (B.6): PolicyA, or PolicyC, which the owner of the machine wrote to the TPM. */
export const EK_POLICY_B_BRANCHES_SHA384 = [
  fromHex('8bbf2266537c171cb56e403c4dc1d4b64f432611dc386e6f532050c3278c930e143e8bb1133824ccb431053871c6db53'),
  fromHex('d6032ce61f2fb3c240eb3cf6a33237ef2b6a16f4293c22b455e261cffd217ad5b4947c2d73e63005eed2dc2b3593d165'),
] as const;
/** PolicyB, SHA-384 (TCG EK Credential Profile 2.5, B.6.4). */
export const EK_POLICY_B_SHA384 = fromHex(
  'b26e7d28d11a50bc53d882bcf5fd3a1a074148bb35d3b4e4cb1c0ad9bde419cacb47ba09699646150f9fc000f3f80e12',
);

/** EK RSA-2048, low range: template L-1. */
export const EK_RSA_2048: Template = new WireWriter()
  .u16(ALG.rsa)
  .u16(ALG.sha256)
  .u32(FIXED | BIT.adminWithPolicy | BIT.restricted | BIT.decrypt)
  .sized(EK_POLICY_A_SHA256)
  .u16(ALG.aes)
  .u16(128)
  .u16(ALG.cfb)
  .u16(ALG.null)
  .u16(2048)
  .u32(0)
  .sized(new Uint8Array(256))
  .finish();

/** EK ECC P-256, low range: template L-2. */
export const EK_ECC_P256: Template = eccTemplate({
  nameHash: 'sha256',
  attributes: FIXED | BIT.adminWithPolicy | BIT.restricted | BIT.decrypt,
  authPolicy: EK_POLICY_A_SHA256,
  aesBits: 128,
  curve: 'p256',
  uniqueX: new Uint8Array(32),
  uniqueY: new Uint8Array(32),
});

/**
 * EK ECC P-384, high range: template H-3. Besides its policy, its (empty) authorization value permits its use as well.
 */
export const EK_ECC_P384: Template = eccTemplate({
  nameHash: 'sha384',
  attributes: FIXED | BIT.userWithAuth | BIT.adminWithPolicy | BIT.restricted | BIT.decrypt,
  authPolicy: EK_POLICY_B_SHA384,
  aesBits: 256,
  curve: 'p384',
});

/**
 * The attestation key: ECC P-256, restricted, signing. As a primary key it is derived from the seed of the endorsement
 * hierarchy, so that a machine stores nothing and has the same key after a restart. With `unique`, only programs that
 * know this value can derive the key.
 */
export function attestationKeyTemplate(unique: Uint8Array = EMPTY): Template {
  return eccTemplate({
    nameHash: 'sha256',
    attributes: FIXED | BIT.userWithAuth | BIT.noDa | BIT.restricted | BIT.sign,
    signatureHash: 'sha256',
    curve: 'p256',
    uniqueX: unique,
  });
}

/** Storage root key, ECC P-256 (TCG Provisioning Guidance, H-2 with an empty policy): parent of sealed secrets. */
export const STORAGE_ROOT: Template = eccTemplate({
  nameHash: 'sha256',
  attributes: FIXED | BIT.userWithAuth | BIT.noDa | BIT.restricted | BIT.decrypt,
  aesBits: 128,
  curve: 'p256',
});

/** The complete public area of a key outside the TPM that signs policies: ECDSA on P-256. `point`: x and y, 32 bytes each. */
export function policyKeyPublic(point: Uint8Array): Uint8Array {
  return eccTemplate({
    nameHash: 'sha256',
    attributes: BIT.sign,
    signatureHash: 'sha256',
    curve: 'p256',
    uniqueX: point.subarray(0, 32),
    uniqueY: point.subarray(32),
  });
}

/** A sealed secret that is unsealed with its policy only, not with its authorization value. */
export function sealedObjectTemplate(policy: Uint8Array): Template {
  return new WireWriter()
    .u16(ALG.keyedHash)
    .u16(ALG.sha256)
    .u32(BIT.fixedTpm | BIT.fixedParent | BIT.noDa)
    .sized(policy)
    .u16(ALG.null)
    .sized(EMPTY)
    .finish();
}

function fromHex(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'hex'));
}
