import { MAX_ENROLMENT_BYTES } from '../../../internal/attestation/enrolment/index.ts';
import { isSignedByEd25519Key, machineKeyStatement } from '../../../internal/crypto/index.ts';
import { nodeIdOf } from '../../../internal/pki/index.ts';
import type { JoinRecord, TraceFactRecord } from '../../../internal/records/index.ts';
import { MAX_ROLES } from '../../../internal/role/index.ts';
import type { Hello, KeyProof } from '../../joinproto/gen/join_pb.js';
import { canonicalAddress } from '../../../internal/endpoint/index.ts';
import { JoinError } from '../errors.ts';

const MAX_TEXT = 256;
const MAX_FACTS = 16;

/** A key of which a machine has proved, in this session, that it holds the private half. */
export interface ProvenKey {
  readonly pubKeyDer: Uint8Array;
  readonly nodeId: string;
}

/** The report of a machine about itself. All sizes are checked, but only the key is proved. */
export interface MachineIntroduction extends ProvenKey {
  readonly claimed: JoinRecord['claimed'];
  readonly facts: readonly TraceFactRecord[];
  /** Empty without a TPM. */
  readonly enrolment: Uint8Array;
}

/** Verifies the signature of the machine's key over the session. @throws JoinError `join-key-unproved` */
export function verifyKey(proof: KeyProof | undefined, session: Uint8Array): ProvenKey {
  const { publicKey = new Uint8Array(), signature = new Uint8Array() } = proof ?? {};
  if (!isSignedByEd25519Key(publicKey, machineKeyStatement(session), signature))
    throw new JoinError('join-key-unproved', 'verifying the key of a machine: invalid signature');
  return { pubKeyDer: publicKey, nodeId: nodeIdOf(publicKey) };
}

/** Checks sizes, then shape, then the key. @throws JoinError `join-message-malformed`, `join-address-invalid`, `join-key-unproved` */
export function readHello(hello: Hello, session: Uint8Array, nowMs: number): MachineIntroduction {
  const { wantedRoles, facts, enrolment } = hello;
  if (wantedRoles.length > MAX_ROLES)
    throw malformed(`${wantedRoles.length} requested roles, at most ${MAX_ROLES}`);
  if (facts.length > MAX_FACTS) throw malformed(`${facts.length} facts, at most ${MAX_FACTS}`);
  if (enrolment.length > MAX_ENROLMENT_BYTES)
    throw malformed(`${enrolment.length} bytes of enrolment, at most ${MAX_ENROLMENT_BYTES}`);
  const offset = Number(hello.nowMs) - nowMs;
  const claimed = {
    hostname: text('hostname', hello.hostname),
    address: parseAddress(hello.address),
    name: text('wanted_name', hello.wantedName),
    roles: [...new Set(wantedRoles.map((role) => text('wanted_roles', role)))],
    agentVersion: text('agent_version', hello.agentVersion),
    clockOffsetMs: Number.isSafeInteger(offset) ? offset : Number.MAX_SAFE_INTEGER,
  };
  const reported = facts.map(({ name, outcome, expected, actual, fix, code, timeMs }): TraceFactRecord => {
    const known = (['pass', 'warn', 'fail'] as const).find((each) => each === outcome);
    if (known === undefined)
      throw malformed(`a fact with the unknown outcome ${JSON.stringify(outcome.slice(0, 32))}`);
    return {
      side: 'machine',
      name: text('facts.name', name),
      outcome: known,
      expected: text('facts.expected', expected),
      actual: text('facts.actual', actual),
      fix: text('facts.fix', fix),
      code: text('facts.code', code),
      timeMs: Number(BigInt.asIntN(53, timeMs)),
    };
  });
  return { ...verifyKey(hello.key, session), claimed, facts: reported, enrolment };
}

/** An IP address without port and zone in canonical form. @throws JoinError `join-address-invalid` */
export function parseAddress(given: string): string {
  const canonical = canonicalAddress(given);
  if (canonical === undefined)
    throw new JoinError('join-address-invalid', `not an IP address: ${JSON.stringify(given.slice(0, 64))}`);
  return canonical;
}

/** Replaces control characters, which could steer a terminal that shows the text later. */
function text(field: string, given: string): string {
  if (given.length > MAX_TEXT)
    throw malformed(`${field} has ${given.length} characters, at most ${MAX_TEXT}`);
  return given.replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, '?');
}

function malformed(what: string): JoinError {
  return new JoinError('join-message-malformed', `reading hello: ${what}`);
}
