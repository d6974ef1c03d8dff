import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { decodeChallenge, encodeEnrolmentRequest } from '../../internal/attestation/enrolment/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { DiskFiles, KernelFiles } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { socketSource, Tpm } from '../../internal/tpm/index.ts';
import { NodeLock } from '../nodelock/index.ts';
import { createMachineEvidence } from './machine-evidence.ts';
import { createTpmLockRegister } from './tpm-lock-register.ts';

/*
 * The evidence of a real agent, for tests of another program: `node stub-evidence-program.mjs SOCKET DIRECTORY`. A line of input is a request, a line of
 * output its answer, both JSON; bytes are base64. The directory has what an agent keeps on its disk; an empty one is that of a machine whose
 * state disk is closed.
 */

const LOCK_PCR = 15;
const signal = new AbortController().signal;
const [path = '', directory = ''] = process.argv.slice(2);
const files = new DiskFiles();
const clock = new SystemClock();
await using tpm = new Tpm({ source: socketSource({ path }), clock });
const register = createTpmLockRegister({ tpm, pcr: LOCK_PCR, signal });
const lock = new NodeLock({
  files,
  path: join(directory, 'lock.json'),
  nowMs: () => clock.nowMs(),
  register,
});
const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
const evidence = createMachineEvidence({
  provisioning: { tpm: { kind: 'socket', path, lockPcr: LOCK_PCR, sealedPcrs: [7] }, processor: 'none' },
  ...{ tpm, files, clock, kernel: new KernelFiles(), machineKeyPem: new Secret(pem.toString()) },
  keySecretPath: join(directory, 'ak-secret'),
  mirrorLock: () => lock.mirrorToRegister(),
});

const bytes = (text = '') => new Uint8Array(Buffer.from(text, 'base64'));
const base64 = (value) => Buffer.from(value).toString('base64');

async function answer(request) {
  switch (request.do) {
    case 'enrolment': {
      const enrolment = await evidence.readEnrolment(signal);
      return enrolment === undefined ? undefined : base64(encodeEnrolmentRequest(enrolment));
    }
    case 'evidence': {
      const { variant, document } = await evidence.forDiskShare(bytes(request.statement), signal);
      return { variant, document: base64(document) };
    }
    case 'activate':
      return base64(
        await evidence.answerChallenge(
          decodeChallenge(bytes(request.challenge)),
          bytes(request.session),
          signal,
        ),
      );
    case 'lock':
      await lock.acquire({ clusterId: request.clusterId ?? '', by: 'join', id: 'one' });
      return String(await evidence.readLockCounter(signal));
    default:
      throw new TypeError(`unknown request ${JSON.stringify(request)}`);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const said = await answer(JSON.parse(line)).then(
    (value) => ({ value }),
    (error) => ({ error: String(error) }),
  );
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
