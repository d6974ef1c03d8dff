import { connect } from 'node:net';

/** The few TPM commands that stories need (TCG "TPM 2.0 Library, part 3: Commands"). */
const SHA256 = '000b';

/** The value of a platform configuration register (SHA-256 bank), hex. */
export async function readRegister(socket: string, register: number): Promise<string> {
  const bits = Buffer.alloc(3);
  bits.writeUIntLE(1 << register, 0, 3);
  // TPM2_PCR_Read with one selection in one bank.
  const answer = await call(socket, `8001 00000014 0000017e 00000001 ${SHA256} 03 ${bits.toString('hex')}`);
  return answer.subarray(-32).toString('hex');
}

/** Extends a PCR as an agent would. */
export async function extendRegister(socket: string, register: number, digestHex: string): Promise<void> {
  const handle = register.toString(16).padStart(8, '0');
  const passwordSession = '00000009 40000009 0000 00 0000'; // TPM_RS_PW, no nonce, no attributes, empty password
  await call(socket, `8002 00000041 00000182 ${handle} ${passwordSession} 00000001 ${SHA256} ${digestHex}`);
}

async function call(socket: string, hex: string): Promise<Buffer> {
  const connection = connect(socket);
  try {
    const answer = await new Promise<Buffer>((resolve, reject) => {
      connection.once('error', reject);
      connection.once('data', resolve);
      connection.write(Buffer.from(hex.replaceAll(' ', ''), 'hex'));
    });
    const code = answer.readUInt32BE(6);
    if (code !== 0) throw new Error(`the TPM answered 0x${code.toString(16)} to ${hex}`);
    return answer;
  } finally {
    connection.destroy();
  }
}
