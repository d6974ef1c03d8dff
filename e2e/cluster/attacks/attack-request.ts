/** The parts of a machine that an attacker has, as paths on the host. */
export interface StolenFiles {
  /** The socket of the machine's TPM. */
  readonly tpm: string;
  /** The key of the machine's agent. Without it, the attacker creates a key. */
  readonly key?: string;
  /**
   * The data that the agent sealed to the TPM and derived its attestation key from. Without it, the attacker
   * has another attestation key.
   */
  readonly sealed?: string;
}

export const ATTACKS = [
  'evidence that was shown before',
  'the TPM of another machine',
  'the endorsement key of another machine',
  'a second key for one machine',
  'the key of another machine',
  'the ticket of another machine',
  'another name for its kubelet',
  'another node for its kubelet',
  'admission',
  'a ticket',
  'certificates',
] as const;
export type Attack = (typeof ATTACKS)[number];

/** One attack, as JSON on the standard input of e2e/cluster/attacks/attacker.ts. */
export interface AttackRequest {
  readonly attack: Attack;
  /** Endpoint of the join service. */
  readonly endpoint: string;
  /** The node address that the attacker claims for its machine. */
  readonly address: string;
  readonly own: StolenFiles;
  readonly others?: StolenFiles;
  /** The node that the attacker impersonates. */
  readonly victim?: { readonly nodeId: string; readonly name: string };
}

/** The result of an attack. */
export type AttackResult =
  | { readonly refused: string }
  /** The node, and the names in the kubelet's certificates where there are some. */
  | { readonly granted: string; readonly names: readonly string[] };
