/**
 * An attacker who has root on a machine: the machine's key, its TPM and its network. The attacker runs this
 * program instead of the agent. Each run reads one attack from the standard input and writes its result to
 * the standard output.
 */
import { X509Certificate, createPrivateKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { stdin, stdout } from 'node:process';
import { text } from 'node:stream/consumers';
import { openKeySecret } from '../../../internal/attestation/tpm/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import { DiskFiles } from '../../../internal/file/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import { tpmHardware, type MachineHardware } from '../../../internal/testing/tpm/machine-hardware.ts';
import { socketSource, Tpm } from '../../../internal/tpm/index.ts';
import { endorsedBy, keysNaming, replaying, TestMachine } from '../../../joinservice/testing/index.ts';
import type { Ticket } from '../../../joinservice/joinproto/gen/join_pb.js';
import type { Attack, StolenFiles, AttackRequest, AttackResult } from './attack-request.ts';

const clock = new SystemClock();
const never = new AbortController().signal;
const orders = JSON.parse(await text(stdin)) as AttackRequest;

interface Held {
  readonly hardware: MachineHardware;
  readonly machine: TestMachine;
}

async function hold({ tpm: path, key, sealed }: StolenFiles): Promise<Held> {
  const tpm = new Tpm({ source: socketSource({ path }), clock });
  const hardware = tpmHardware(tpm, sealed === undefined ? undefined : await unseal(tpm, sealed));
  const privKey = key === undefined ? undefined : createPrivateKey(await readFile(key, 'utf8'));
  const machine = new TestMachine(hardware, privKey);
  machine.address = orders.address;
  return { hardware, machine };
}

function unseal(tpm: Tpm, path: string): Promise<Secret<Uint8Array>> {
  return openKeySecret({ tpm, files: new DiskFiles(), path, pcrs: [] }, never);
}

const own = await hold(orders.own);
const others = orders.others === undefined ? own : await hold(orders.others);
const { endpoint, address, victim = { nodeId: '', name: '' } } = orders;
const hello = { address, hostname: 'mallory' };

const attacks: Readonly<Record<Attack, () => Promise<AttackResult>>> = {
  'evidence that was shown before': async () => {
    const machine = new TestMachine(replaying(own.hardware));
    using first = await machine.dial(endpoint);
    await first.peer;
    using second = await machine.dial(endpoint);
    await second.peer;
    return granted('a session');
  },
  'the TPM of another machine': () => admission(own.machine, others.hardware),
  'the endorsement key of another machine': () =>
    admission(own.machine, endorsedBy(own.hardware, others.hardware)),
  'a second key for one machine': () => admission(new TestMachine(own.hardware), own.hardware),
  'the key of another machine': async () => {
    using session = await new TestMachine(own.hardware, others.machine.privKey).dial(endpoint);
    return ticketed(await session.rejoin());
  },
  'the ticket of another machine': async () => {
    using session = await own.machine.dial(endpoint);
    return ticketed(await session.ticketHere(victim.nodeId));
  },
  'another name for its kubelet': () => renewal(own.machine.nodeId),
  'another node for its kubelet': () => renewal(victim.nodeId),
  admission: () => admission(own.machine, own.hardware),
  'a ticket': async () => {
    using session = await own.machine.dial(endpoint);
    return ticketed(await session.ticket());
  },
  certificates: async () => {
    using session = await own.machine.dial(endpoint);
    return ticketed(await session.rejoin());
  },
};

async function admission(machine: TestMachine, hardware: MachineHardware): Promise<AttackResult> {
  using session = await machine.dial(endpoint);
  for await (const event of session.admission(hello, hardware)) {
    if (event.case === 'waiting') return { refused: event.value.code };
    if (event.case === 'admitted') return granted(event.value.nodeName);
  }
  throw new Error('the stream ended without an answer');
}

/** Requests kubelet certificates that name the victim, over a session of the attacker's own machine. */
async function renewal(nodeId: string): Promise<AttackResult> {
  using session = await own.machine.dial(endpoint);
  const named = await keysNaming(victim.name, session, address);
  // The attacker can sign only for its own node, so a request for the victim's node has an invalid signature.
  const keys = nodeId === own.machine.nodeId ? named : { ...named, signature: new Uint8Array(64) };
  const key = await session.keyProof();
  return ticketed(await session.client.issueRejoinTicket({ key, address, keys }, { signal: never }));
}

function ticketed({
  nodeName,
  kubeletClientCertificatePem,
  kubeletServingCertificatePem,
}: Ticket): AttackResult {
  const certificates = [kubeletClientCertificatePem, kubeletServingCertificatePem];
  const names = certificates.map((pem) => /CN=.*/.exec(new X509Certificate(pem).subject)?.[0] ?? '');
  return { granted: nodeName, names };
}

function granted(what: string): AttackResult {
  return { granted: what, names: [] };
}

async function outcome(): Promise<AttackResult> {
  try {
    return await attacks[orders.attack]();
  } catch (error) {
    const coded = findCoded(error);
    if (coded === undefined) throw error;
    return { refused: coded.code };
  }
}

stdout.write(`${JSON.stringify(await outcome())}\n`);
