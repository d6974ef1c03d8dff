import { ALG } from '../algorithms.ts';
import type { Authorization } from '../command.ts';
import type { TpmConnection } from '../connection.ts';
import { encodePcrSelection, type PcrSelection } from '../structures/pcr-selection.ts';
import { WireWriter, type WireReader } from '../wire.ts';
import type { LoadedKey } from './keys.ts';

/** A signed TPMS_ATTEST: the exact bytes that were signed, and TPMT_SIGNATURE as the TPM made it. */
export interface SignedAttest {
  readonly attest: Uint8Array;
  readonly signature: Uint8Array;
}

/** What a statement is about, beside its own content. */
export interface SigningOptions {
  readonly key: Pick<LoadedKey, 'handle' | 'auth'>;
  /** At most 64 bytes; a hash over everything the statement is bound to. */
  readonly extraData: Uint8Array;
}

/** TPM2_Quote with the key's own scheme. */
export async function quote(
  tpm: TpmConnection,
  options: SigningOptions & { readonly selection: PcrSelection },
  signal: AbortSignal,
): Promise<SignedAttest> {
  const parameters = new WireWriter()
    .sized(options.extraData)
    .u16(ALG.null)
    .bytes(encodePcrSelection(options.selection))
    .finish();
  const { parameters: reader } = await tpm.execute(
    { name: 'quote', handles: [options.key.handle], authorizations: [options.key.auth], parameters },
    signal,
  );
  return readSignedAttest(reader);
}

/** TPM2_NV_Certify: a signed statement of what an NV index holds, for instance a rollback counter. */
export async function certifyNv(
  tpm: TpmConnection,
  options: SigningOptions & {
    readonly index: number;
    readonly indexAuth: Authorization;
    readonly sizeBytes: number;
    readonly offset: number;
  },
  signal: AbortSignal,
): Promise<SignedAttest> {
  const { key, index, indexAuth } = options;
  const parameters = new WireWriter()
    .sized(options.extraData)
    .u16(ALG.null)
    .u16(options.sizeBytes)
    .u16(options.offset)
    .finish();
  // The index is read by its own authorization value, so it is both the authorizing and the certified handle.
  const { parameters: reader } = await tpm.execute(
    {
      name: 'nvCertify',
      handles: [key.handle, index, index],
      authorizations: [key.auth, indexAuth],
      parameters,
    },
    signal,
  );
  return readSignedAttest(reader);
}

function readSignedAttest(reader: WireReader): SignedAttest {
  const attest = reader.sized('statement', 2048);
  const signature = reader.bytes(reader.remaining, 'signature');
  return { attest, signature };
}
