import { parsePolicy } from '../../../internal/attestation/policy/index.ts';
import { attestationSettings } from '../../../internal/config/index.ts';
import { CodedError } from '../../../internal/errors/index.ts';
import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { fileOrClusterConfiguration } from '../../configuration/index.ts';
import { readDiskSeal, type NodeDiskSeal } from './read-disk-seal.ts';

const ANSWER_MS = 90_000;
/** Registers that follow from an image and not from its machine: its boot image and kernel, and the parts of its UKI. */
const IMAGE_REGISTERS = [4, 11];

/**
 * What is known to keep the state disk of a node locked after its next start: the software that runs is not approved, or the
 * configuration accepts an image for which the disk is not approved. Empty for a node without a state disk, or without an answer.
 */
export async function lossesOfDisk(context: CommandContext, node: Node): Promise<readonly string[]> {
  try {
    const seal = await readDiskSeal(context, node, ANSWER_MS);
    const { attestation } = await fileOrClusterConfiguration(context);
    const { registers } = parsePolicy(attestationSettings(attestation).policyInput);
    return lossesOf(node.name, seal, (pcr) => registers.get(`pcr${pcr}`)?.accepted ?? []);
  } catch (error) {
    context.signal.throwIfAborted();
    if (error instanceof CodedError) return []; // no state disk, or an agent of an earlier release
    throw error;
  }
}

function lossesOf(
  name: string,
  { registers, approved, opens }: NodeDiskSeal,
  acceptedFor: (pcr: number) => readonly string[],
): readonly string[] {
  const locked = 'its state disk stays locked until an owner recovers it (`cluster recover disk`)';
  const known = approved.length === 0 ? [registers] : approved;
  const unknown = IMAGE_REGISTERS.filter((pcr) => registers.has(pcr)).flatMap((pcr) => {
    const values = known.map((each) => Buffer.from(each.get(pcr) ?? []).toString('hex'));
    return acceptedFor(pcr)
      .filter((value) => !values.includes(value))
      .map((value) => `pcr${pcr} ${value.slice(0, 16)}…`);
  });
  return [
    ...(opens
      ? []
      : [`${name} runs software that is not approved for its disk: if it starts again, ${locked}`]),
    ...(unknown.length === 0
      ? []
      : [
          `the configuration accepts an image that is not approved for the disk of ${name} (${unknown.join(', ')}): if the machine starts it, ${locked}. Before: \`cluster attest approve ${name} --registers FILE\``,
        ]),
  ];
}
