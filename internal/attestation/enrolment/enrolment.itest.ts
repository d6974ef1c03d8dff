import { X509Certificate } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Secret } from '../../secret/index.ts';
import { DiskFiles } from '../../file/index.ts';
import { createSoftKey, createSwtpmFactory, type Swtpm, type SwtpmFactory } from '../../testing/index.ts';
import {
  activateCredential,
  createAttestationKey,
  extendPcr,
  openEndorsementKey,
  readEndorsementCertificate,
  readNv,
  withEndorsementAuth,
  type EndorsementKeyKind,
  type Tpm,
} from '../../tpm/index.ts';
import { clockOfVerdict, createTpmIssuer, openKeySecret, TpmValidator } from '../tpm/index.ts';
import { CertificateCache, parsePem } from '../x509/index.ts';
import {
  CredentialActivations,
  answerChallenge,
  compareClockObservations,
  makeCredential,
  readEnrolmentRequest,
  verifyEndorsement,
  type EndorsementOptions,
  type EndorsementTrust,
  type EnrolmentRequest,
  type ClockObservation,
} from './index.ts';

const never = new AbortController().signal;
/** All kinds of endorsement keys. */
const EK_KINDS = ['rsa-2048', 'ecc-p256', 'ecc-p384'] as const;
const session = new Uint8Array(64).fill(1);
const coded = (code: string): unknown => expect.objectContaining({ code });
const derOf = (pem: string): Uint8Array =>
  parsePem(pem, { label: 'CERTIFICATE', maxBlocks: 1, allowBlankLines: true })[0] ?? new Uint8Array();
const fingerprintOf = (pem: string): string =>
  new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase();

/** More attempts than a software TPM allows before its dictionary-attack lockout. */
const RUNS = 6;

/** Lets the TPM decrypt a credential that was created for its attestation key or for the Name of another key. */
function openCredential(tpm: Tpm, kind: EndorsementKeyKind, name?: Uint8Array): Promise<Uint8Array> {
  return tpm.use(never, async (connection, signal) => {
    await using endorsementKey = await openEndorsementKey(connection, kind, signal);
    await using attestationKey = await createAttestationKey(connection, undefined, signal);
    const credential = makeCredential(
      endorsementKey.publicArea,
      name ?? attestationKey.name,
      Buffer.from('secret'),
    );
    return await withEndorsementAuth(connection, endorsementKey, signal, (auth) =>
      activateCredential(
        connection,
        {
          attestationKey,
          endorsementKey: { handle: endorsementKey.handle, name: endorsementKey.name, auth },
          ...credential,
        },
        signal,
      ),
    );
  });
}

describe('enrolment of a software TPM', () => {
  let factory: SwtpmFactory;
  let swtpm: Swtpm;
  let tpm: Tpm;
  let request: EnrolmentRequest;
  let trust: EndorsementTrust;
  const nowMs = Date.now() + 60_000; // later than now: the certificates are created only after this line
  const optionsOf = (change: Partial<EndorsementTrust> = {}, atMs = nowMs): EndorsementOptions => ({
    trust: { ...trust, ...change },
    cache: new CertificateCache(),
    nowMs: atMs,
  });

  beforeAll(async () => {
    factory = await createSwtpmFactory();
    swtpm = await factory.start();
    tpm = swtpm.open();
    request = await readEnrolmentRequest({ tpm }, never);
    trust = {
      roots: new Set([fingerprintOf(factory.rootPem)]),
      authorities: [derOf(factory.issuerPem), derOf(factory.rootPem)],
      pinnedKeys: new Set(),
    };
  }, 60_000);

  afterAll(async () => {
    await tpm[Symbol.asyncDispose]();
    await swtpm[Symbol.asyncDispose]();
    await factory[Symbol.asyncDispose]();
  });

  test('links the attestation key to the machine, so that its quotes are endorsed', async () => {
    const activations = new CredentialActivations();
    const challenge = activations.challenge(verifyEndorsement(request, optionsOf()), nowMs);
    const answer = await answerChallenge({ tpm }, challenge, session, never);
    const endorsed = activations.verifyAnswer({ id: challenge.id, answer, session }, nowMs);
    expect(endorsed.hardware).toMatchObject({ manufacturer: 'id:00001014', model: 'swtpm' });
    const evidence = await createTpmIssuer({ tpm, pcrs: [0, 15] }).issue(session, never);
    const verdict = await judge(evidence, endorsed.attestationKeyNameHex, endorsed.endorsementKeyId);
    expect(verdict.machineIdentity).toEqual({
      kind: 'tpm-ek',
      id: endorsed.endorsementKeyId,
      proof: 'endorsed',
    });
  });

  async function judge(evidence: Uint8Array, nameHex: string, endorsementKeyId: string) {
    return new TpmValidator().validate(evidence, session, {
      nowMs,
      policy: {
        version: '1',
        registers: new Map(),
        machines: new Set([`tpm-ek:${endorsementKeyId}`]),
        tpm: {
          attestationKeys: 'enrolled',
          requiredPcrs: [0, 15],
          loggedPcrs: [],
          requireSafeClock: false,
          eventLog: 'optional',
        },
      },
      collateral: { tpm: { attestationKeys: new Map([[nameHex, { endorsementKeyId }]]) } },
    });
  }

  test('accepts a pinned endorsement key without a certificate', () => {
    const { endorsementKeyId } = verifyEndorsement(request, optionsOf());
    const { endorsementKey, attestationKey } = request;
    const pinned = optionsOf({ roots: new Set(), pinnedKeys: new Set([endorsementKeyId]) });
    expect(verifyEndorsement({ endorsementKey, attestationKey }, pinned)).toMatchObject({
      endorsementKeyId,
      hardware: {},
    });
    const other = optionsOf({ roots: new Set(), pinnedKeys: new Set(['00']) });
    expect(() => verifyEndorsement({ endorsementKey, attestationKey }, other)).toThrow(
      coded('enrol-certificate-missing'),
    );
  });

  const platformCertificate = 0x01c08000;
  const hostile: readonly {
    readonly name: string;
    readonly request?: () => Promise<Partial<EnrolmentRequest>>;
    readonly options?: () => EndorsementOptions;
    readonly code: string;
  }[] = [
    {
      name: 'a TPM while no root and no key is trusted',
      options: () => optionsOf({ roots: new Set() }),
      code: 'enrol-trust-missing',
    },
    {
      name: 'an EK certificate under an untrusted root',
      options: () => optionsOf({ roots: new Set(['00'.repeat(32)]) }),
      code: 'x509-root-untrusted',
    },
    {
      name: 'an EK certificate without its issuer',
      options: () => optionsOf({ authorities: [] }),
      code: 'x509-root-untrusted',
    },
    {
      name: 'an EK certificate that is not valid yet',
      options: () => optionsOf({}, 0),
      code: 'x509-not-yet-valid',
    },
    {
      name: 'a CA certificate in place of the EK certificate',
      request: async () => ({ endorsementCertificate: derOf(factory.issuerPem) }),
      code: 'x509-not-a-ca',
    },
    {
      name: 'the certificate of another endorsement key',
      request: async () => ({ endorsementCertificate: await certificateOf('rsa-2048') }),
      code: 'enrol-certificate-key',
    },
    {
      name: 'the platform certificate in place of the EK certificate',
      request: async () => ({ endorsementCertificate: await readIndex(platformCertificate) }),
      code: 'enrol-certificate-usage',
    },
    {
      name: 'an attestation key in place of the endorsement key',
      request: async () => ({ endorsementKey: request.attestationKey }),
      code: 'enrol-endorsement-key',
    },
    {
      name: 'an endorsement key in place of the attestation key',
      request: async () => ({ attestationKey: request.endorsementKey }),
      code: 'quote-key-attributes',
    },
    {
      name: 'an attestation key that is not restricted to data of the TPM',
      request: async () => ({ attestationKey: createSoftKey(0x00040472).publicArea }),
      code: 'quote-key-attributes',
    },
    {
      name: 'an endorsement key that cannot be parsed',
      request: async () => ({ endorsementKey: new Uint8Array(3) }),
      code: 'enrol-endorsement-key',
    },
    {
      name: 'an EK certificate that cannot be parsed',
      request: async () => ({ endorsementCertificate: new Uint8Array(30) }),
      code: 'x509-malformed',
    },
  ];
  test.each(hostile)('refuses $name', async ({ request: change, options, code }) => {
    const asked = { ...request, ...(await change?.()) };
    const attempt = (): unknown => verifyEndorsement(asked, options?.() ?? optionsOf());
    expect(attempt).toThrow(expect.objectContaining({ code }));
  });

  test('refuses an EK certificate with any bit changed', () => {
    const certificate = request.endorsementCertificate ?? new Uint8Array();
    expect(certificate.length).toBeGreaterThan(500);
    for (let at = 0; at < certificate.length; at++) {
      const altered = certificate.slice();
      altered[at] = (altered[at] ?? 0) ^ (1 << (at % 8));
      expect(() => verifyEndorsement({ ...request, endorsementCertificate: altered }, optionsOf())).toThrow(
        expect.objectContaining({ code: expect.stringMatching(/^(x509|enrol)-/) }),
      );
    }
  });

  test.each(EK_KINDS)(
    'a credential for the endorsement key of kind %s opens only with the right Name',
    async (kind) => {
      const open = (name?: Uint8Array): Promise<Uint8Array> => openCredential(tpm, kind, name);
      expect(Buffer.from(await open()).toString()).toBe('secret');
      const other = Buffer.alloc(34, 7);
      other.writeUInt16BE(0x000b); // the Name of another key (SHA-256)
      await expect(open(other)).rejects.toMatchObject({ code: 'tpm-credential-rejected' });
    },
  );

  test('use of the endorsement key never leads to a dictionary-attack lockout, even after many power losses', async () => {
    await using own = await createSwtpmFactory();
    for (let life = 1; life <= RUNS; life++) {
      await using cut = await own.start();
      await using machine = cut.open();
      for (const kind of EK_KINDS)
        expect(Buffer.from(await openCredential(machine, kind)).toString()).toBe('secret');
    }
  }, 30_000);

  test('a copied TPM answers challenges like the original and is detected by its clock', async () => {
    const { attestationKeyNameHex, endorsementKeyId } = verifyEndorsement(request, optionsOf());
    await tpm[Symbol.asyncDispose]();
    await swtpm[Symbol.asyncDispose]();
    await using copy = await factory.start({ copy: 'stolen' });
    await using stolen = copy.open();
    await stolen.use(never, async () => undefined);
    await new Promise((resolve) => setTimeout(resolve, 2000)); // meanwhile only the copy’s clock advances
    swtpm = await factory.start(); // from the same state: the same reset count, the same clock
    tpm = swtpm.open();
    const observationOf = async (of: Tpm): Promise<ClockObservation> => {
      const evidence = await createTpmIssuer({ tpm: of, pcrs: [0, 15] }).issue(session, never);
      const clock = clockOfVerdict(await judge(evidence, attestationKeyNameHex, endorsementKeyId));
      if (clock === undefined) throw new Error('no clock');
      return { attestationKeyNameHex, nodeKeyId: 'node', clock, seenAtMs: Date.now() };
    };
    const [ahead, behind] = [await observationOf(stolen), await observationOf(tpm)];
    expect(compareClockObservations(ahead, behind).map((each) => each.kind)).toContain('clock-behind');
  });

  test('the attestation key’s secret can be unsealed only by the software that it was sealed for', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'cluster-key-secret-'));
    const options = { tpm, files: new DiskFiles(), path: join(directory, 'ak-secret'), pcrs: [12] };
    try {
      const secret = await openKeySecret(options, never);
      expect(Buffer.compare((await openKeySecret(options, never)).reveal(), secret.reveal())).toBe(0);
      await tpm.use(never, (connection, signal) =>
        extendPcr(connection, { pcr: 12, hash: 'sha256', digest: new Uint8Array(32).fill(7) }, signal),
      );
      await expect(openKeySecret(options, never)).rejects.toMatchObject({ code: 'tpm-policy-failed' });
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  test('an attestation key that depends on a secret can be enrolled like any other', async () => {
    const machine = { tpm, attestationKeySecret: new Secret<Uint8Array>(new Uint8Array(32).fill(4)) };
    const activations = new CredentialActivations();
    const endorsement = verifyEndorsement(await readEnrolmentRequest(machine, never), optionsOf());
    const challenge = activations.challenge(endorsement, nowMs);
    const answer = await answerChallenge(machine, challenge, session, never);
    expect(activations.verifyAnswer({ id: challenge.id, answer, session }, nowMs)).toBe(endorsement);
    const untrusted = activations.challenge(endorsement, nowMs);
    await expect(answerChallenge({ tpm }, untrusted, session, never)).rejects.toMatchObject({
      code: 'tpm-credential-rejected',
    });
  });

  async function certificateOf(kind: EndorsementKeyKind): Promise<Uint8Array> {
    const found = await tpm.use(never, (connection, signal) =>
      readEndorsementCertificate(connection, kind, signal),
    );
    return found ?? new Uint8Array();
  }

  function readIndex(index: number): Promise<Uint8Array> {
    return tpm.use(never, (connection, signal) => readNv(connection, index, signal));
  }
});
