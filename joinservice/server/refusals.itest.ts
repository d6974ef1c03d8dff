import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { SystemClock } from '../../internal/clock/index.ts';
import { records, type JoinRecord } from '../../internal/records/index.ts';
import { tpmHardware, tpmIdentity } from '../../internal/testing/index.ts';
import { lockCounter, type Tpm } from '../../internal/tpm/index.ts';
import { endorsedBy, keysNaming, replaying, TestMachine } from '../testing/index.ts';
import { coded, serviceOfTheseTests, until, type TestService } from './fake-service.ts';

const never = new AbortController().signal;
const clock = new SystemClock();

let service: TestService;
serviceOfTheseTests((started) => (service = started));

describe('the join service refuses', () => {
  let strange: Tpm;
  let names: readonly string[];
  let tpm: Tpm;
  let b: TestMachine;
  afterEach(() => service.configure('approve'));
  beforeAll(async () => {
    [tpm, strange] = [await service.tpm(), await service.tpm()];
    b = await member(tpm, 'b');
  }, 60_000);

  /**
   * Expects a refusal with this code, no signed ticket, and an audit entry with the code, under this subject
   * if one is given.
   */
  async function expectRefused(
    attempt: () => Promise<unknown>,
    want: { readonly code: string; readonly audit?: readonly [subject: string, code: string] },
  ): Promise<void> {
    await expect(attempt()).rejects.toEqual(coded(want.code));
    expect(await service.nodeNames()).toEqual(names);
    const [subject, code] = want.audit ?? [undefined, want.code];
    await service.untilAudited(code, subject);
  }

  test('a machine that is not in the inventory', async () => {
    await service.configure('inventory');
    const d = new TestMachine(tpmHardware(strange));
    using session = await d.dial(service.endpoint);
    await expectRefused(() => session.admitted(), {
      code: 'join-unknown-machine',
      audit: [d.nodeId, 'join-unknown-machine'],
    });
    await expectRefused(() => session.ticket(), { code: 'join-unknown-machine' });
  });

  test('a machine without endorsed hardware under the policy auto', async () => {
    await service.configure('auto');
    const d = new TestMachine(tpmHardware(strange));
    using session = await d.dial(service.endpoint);
    await expectRefused(() => session.admitted(), { code: 'join-identity-unproved' });
  });

  test('a machine with other software', async () => {
    await service.configure('approve', [], { pcr7: { expected: 'ab'.repeat(32) } });
    const d = new TestMachine(tpmHardware(strange));
    using session = await d.dial(service.endpoint);
    await expectRefused(() => session.admitted(), {
      code: 'atls-alert-evidence-rejected',
      audit: ['address:127.0.0.1', 'attestation-register-mismatch'],
    });
    const { facts } = await service.admin.getTrace({ subject: '127.0.0.1' }, { signal: never });
    expect(facts.find(({ code }) => code === 'attestation-register-mismatch')).toMatchObject({
      side: 'cluster',
      name: 'evidence',
      expected: 'ab'.repeat(32),
    });
  });

  test('replayed evidence from an earlier session', async () => {
    const d = new TestMachine(replaying(tpmHardware(strange)));
    using first = await d.dial(service.endpoint);
    await first.peer;
    using second = await d.dial(service.endpoint);
    await expect(second.peer).rejects.toEqual(coded('atls-alert-evidence-rejected'));
    const entry = await until(async () =>
      (await service.auditOf('address:127.0.0.1')).find(({ code }) => String(code).startsWith('quote-')),
    );
    expect(entry).toMatchObject({ method: 'Attest', verdict: 'refused' });
    expect(await service.nodeNames()).toEqual(names);
  });

  test('a machine that enrols the TPM of another machine', async () => {
    const d = new TestMachine(tpmHardware(strange));
    using session = await d.dial(service.endpoint);
    await expectRefused(() => session.admitted({}, tpmHardware(tpm)), { code: 'join-evidence-mismatch' });
  });

  test('a machine with its own attestation key and the endorsement key of another machine', async () => {
    const d = new TestMachine(tpmHardware(strange));
    using session = await d.dial(service.endpoint);
    const mixed = endorsedBy(tpmHardware(strange), tpmHardware(tpm));
    await expectRefused(() => session.admitted({}, mixed), { code: 'enrol-answer-wrong' });
  });

  test('the machine of a member with a second key, and the key of a member on another machine', async () => {
    const second = new TestMachine(tpmHardware(tpm));
    using session = await second.dial(service.endpoint);
    await expectRefused(() => session.admitted(), {
      code: 'join-identity-taken',
      audit: [second.nodeId, 'join-identity-taken'],
    });
    const stolen = new TestMachine(tpmHardware(strange), b.privKey);
    using thief = await stolen.dial(service.endpoint);
    await expectRefused(() => thief.rejoin(), { code: 'join-identity-changed' });
    await expectRefused(() => thief.admitted(), { code: 'join-identity-changed' });
    using owner = await b.dial(service.endpoint);
    expect((await owner.rejoin()).nodeName).toBe('b'); // the other member, which none of the refusals affects
  });

  test('a taken name, a role that the policy does not give, a wrong clock', async () => {
    const d = new TestMachine(tpmHardware(strange));
    const identity = await tpmIdentity(strange);
    using session = await d.dial(service.endpoint);
    await service.configure('inventory', [{ identity, name: 'b' }]);
    await expectRefused(() => session.admitted(), {
      code: 'join-name-taken',
      audit: [d.nodeId, 'join-name-taken'],
    });
    await service.configure('inventory', [{ identity, name: 'd' }]);
    const wantedRoles = ['ConsensusMember', 'KubernetesController'];
    await expectRefused(() => session.admitted({ wantedRoles }), {
      code: 'join-role-denied',
      audit: [d.nodeId, 'join-role-denied'],
    });
    const nowMs = BigInt(clock.nowMs() + 3_600_000);
    await expectRefused(() => session.admitted({ nowMs }), {
      code: 'join-clock-off',
      audit: [d.nodeId, 'join-clock-off'],
    });
    const { facts } = await service.admin.getTrace({ subject: d.nodeId }, { signal: never });
    expect(facts.find(({ name }) => name === 'clock')?.actual).toMatch(/^\+3(599|600) s$/);
  });

  test('a ticket for another key, an expired ticket, and a used ticket', async () => {
    const d = new TestMachine(tpmHardware(strange));
    using session = await d.dial(service.endpoint);
    const admitted = session.admitted();
    await service.asked(d.nodeId);
    await service.approve(d.nodeId, 'd');
    await admitted;
    const e = new TestMachine(tpmHardware(tpm));
    using others = await e.dial(service.endpoint);
    await expectRefused(() => others.ticket(d.nodeId), { code: 'join-ticket-other-key' });
    const past = (record: JoinRecord): JoinRecord => ({
      ...record,
      ...(record.decision === undefined ? {} : { decision: { ...record.decision, expiresMs: 1 } }),
    });
    await service.edit(d.nodeId, past);
    await expectRefused(() => session.ticket(), { code: 'join-admission-expired' });
    await service.edit(b.nodeId, past);
    using used = await b.dial(service.endpoint);
    await expectRefused(() => used.ticket(), { code: 'join-ticket-used' });
  });

  test('a ticket or certificates for a machine that is not locked to the cluster', async () => {
    const f = new TestMachine(tpmHardware(await service.tpm()));
    using session = await f.dial(service.endpoint);
    const admitted = session.admitted();
    await service.asked(f.nodeId);
    await service.approve(f.nodeId, 'f');
    await admitted;
    await expectRefused(() => session.ticketHere(), { code: 'join-not-locked' });
    expect((await session.ticket()).nodeName).toBe('f');
    names = await service.nodeNames();
    await expectRefused(() => session.rejoin(), { code: 'join-not-locked' });
    using locked = await f.dial(service.endpoint);
    expect((await locked.rejoin()).nodeName).toBe('f');
  });

  test('certificates for a member that was wiped, locked again and restored from a disk copy', async () => {
    const own = await service.tpm();
    const g = await member(own, 'g');
    using before = await g.dial(service.endpoint);
    expect((await before.rejoin()).nodeName).toBe('g');
    await own.use(never, (connection, signal) => lockCounter.increment(connection, signal));
    using after = await g.dial(service.endpoint);
    await expectRefused(() => after.rejoin(), { code: 'join-locked-again' });
    await expectRefused(() => after.ticketHere(), { code: 'join-locked-again' });
  });

  test('certificates for a copy of a member, whose TPM clock is behind the observed one', async () => {
    const own = await service.tpm();
    const h = await member(own, 'h');
    const { identity } = await admissionOf(h.nodeId);
    const key = records.identity.key(identity);
    const seen = records.identity.decode(
      key,
      (await service.space.get(key, { signal: never }))?.value ?? new Uint8Array(),
    );
    expect(seen.sighting?.resetCount).toBeGreaterThan(0);
    // The original has been restarted twice since the copy was made.
    const sighting = seen.sighting && { ...seen.sighting, resetCount: seen.sighting.resetCount + 2 };
    await service.write(key, records.identity.encode({ ...seen, ...(sighting && { sighting }) }));
    using copy = await h.dial(service.endpoint);
    await expectRefused(() => copy.rejoin(), {
      code: 'join-machine-copied',
      audit: [identity, 'join-machine-copied'],
    });
  });

  /** Another member, which the following refusals do not affect. */
  async function member(own: Tpm, name: string): Promise<TestMachine> {
    const made = await service.joined(own, name);
    names = await service.nodeNames();
    return made;
  }

  async function admissionOf(nodeId: string) {
    const key = records.node.key(nodeId);
    const entry = await service.space.get(key, { signal: never });
    const { admission } = records.node.decode(key, entry?.value ?? new Uint8Array());
    if (admission === undefined) throw new Error('nothing on record');
    return admission;
  }

  test('a kubelet certificate in the name of another node', async () => {
    using session = await b.dial(service.endpoint);
    const keys = await keysNaming('first', session);
    const asked = { key: await session.keyProof(), address: '192.0.2.1', keys };
    const ticket = await session.client.issueRejoinTicket(asked, { signal: never });
    for (const pem of [ticket.kubeletClientCertificatePem, ticket.kubeletServingCertificatePem])
      expect(new X509Certificate(pem).subject).toContain('CN=system:node:b');
    const serving = new X509Certificate(ticket.kubeletServingCertificatePem);
    expect(serving.subjectAltName).toBe('DNS:b, IP Address:192.0.2.1');
    const { nodes } = await service.curator.listNodes({}, { signal: never });
    const others = nodes.find(({ name }) => name === 'first')?.nodeId ?? '';
    const joinId = { key: asked.key, joinId: others, keys };
    await expectRefused(() => session.client.issueJoinTicket(joinId, { signal: never }), {
      code: 'join-ticket-other-key',
    });
  });

  test('keys that the machine did not sign, and missing keys', async () => {
    using session = await b.dial(service.endpoint);
    const keys = await session.keys({}, { timeMs: 1 });
    const key = await session.keyProof();
    const address = '192.0.2.1';
    await expectRefused(() => session.client.issueRejoinTicket({ key, address, keys }, { signal: never }), {
      code: 'signer-request-invalid',
    });
    const unproved = { ...key, signature: new Uint8Array(64) };
    const good = await session.keys();
    await expectRefused(
      () => session.client.issueRejoinTicket({ key: unproved, address, keys: good }, { signal: never }),
      { code: 'join-key-unproved' },
    );
  });
});
