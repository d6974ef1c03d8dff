import { HIERARCHY, password, WireWriter, type Authorization, type TpmConnection } from '../../tpm/index.ts';

/** TPM2_GetCapability of one TPM_PT property, e.g. the manufacturer; undefined when the TPM does not have it. */
export function readProperty(
  tpm: TpmConnection,
  property: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  const parameters = new WireWriter().u32(6).u32(property).u32(1).finish();
  return tpm.ask({ name: 'getCapability', parameters }, signal, (reader) => {
    reader.u8('moreData');
    reader.expect(reader.u32('capability'), 6, 'capability');
    const count = reader.u32('count');
    if (count > 1) throw reader.fail('count', 'at most 1', `${count}`);
    if (count === 0) return undefined;
    const found = reader.u32('property');
    const value = reader.u32('value');
    return found === property ? value : undefined;
  });
}

/** TPM2_NV_UndefineSpace in the owner hierarchy. */
export function undefineNv(tpm: TpmConnection, index: number, signal: AbortSignal): Promise<void> {
  const handles = [HIERARCHY.owner, index];
  return tpm.run({ name: 'nvUndefineSpace', handles, authorizations: [password()] }, signal);
}

/** TPM2_NV_Write: writes an ordinary index from its start, in chunks of 512 bytes. */
export async function writeNv(
  tpm: TpmConnection,
  options: { readonly index: number; readonly auth: Authorization; readonly data: Uint8Array },
  signal: AbortSignal,
): Promise<void> {
  const { index, auth, data } = options;
  for (let offset = 0; offset < data.length; offset += 512) {
    const chunk = data.subarray(offset, offset + 512);
    const parameters = new WireWriter().sized(chunk).u16(offset).finish();
    await tpm.run({ name: 'nvWrite', handles: [index, index], authorizations: [auth], parameters }, signal);
  }
}

/** TPM2_PCR_Event: the TPM hashes the data and extends the PCR in all banks. */
export function eventPcr(
  tpm: TpmConnection,
  pcr: number,
  data: Uint8Array,
  signal: AbortSignal,
): Promise<void> {
  const parameters = new WireWriter().sized(data).finish();
  const command = { name: 'pcrEvent', handles: [pcr], authorizations: [password()], parameters } as const;
  return tpm.ask(command, signal, (reader) => {
    const count = reader.u32('number of digests');
    if (count > 8) throw reader.fail('number of digests', 'at most 8', `${count}`);
    reader.bytes(reader.remaining, 'digests');
  });
}
