/** What an attacker has of a machine, as paths of the host. */
export interface StolenFiles {
  /** The socket of its TPM. */
  readonly tpm: string;
  /** Its agent's key; without one, a key is made. */
  readonly key?: string;
  /** What the agent sealed to the TPM, and made its attestation key with; without it, the attestation key is another. */
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

/** One attack, on the standard input of e2e/cluster/attacks/attacker.ts. */
export interface AttackRequest {
  readonly attack: Attack;
  /** Of the join service. */
  readonly endpoint: string;
  /** Where the attacker says that other nodes reach it. */
  readonly address: string;
  readonly own: StolenFiles;
  readonly others?: StolenFiles;
  /** Whom it wants to be taken for. */
  readonly victim?: { readonly nodeId: string; readonly name: string };
}

/** What became of it. */
export type AttackResult =
  | { readonly refused: string }
  /** The node, and the names in the kubelet's certificates where there are some. */
  | { readonly granted: string; readonly names: readonly string[] };
