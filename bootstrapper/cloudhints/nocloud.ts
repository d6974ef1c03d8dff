import { z } from 'zod';
import type { CloudProvider } from './cloud-provider.ts';
import { type CloudHints, parseHints, parseJson } from './parse-hints.ts';

/**
 * The metadata that cloud-init has read; world-readable, without secrets (cloud-init documentation, "Instance
 * metadata").
 */
const INSTANCE_DATA = '/run/cloud-init/instance-data.json';
const MAX_BYTES = 1024 * 1024;
const NO_CLOUD = 'nocloud';

const text = z.string().nullish();
const instanceData = z.object({
  v1: z.object({ platform: z.string(), local_hostname: text, region: text, availability_zone: text }),
});

/**
 * NoCloud: a disk, a directory or the firmware has the metadata, and cloud-init reads it. Nothing is sent. Metadata that cloud-init
 * read on another platform is not used.
 */
export const nocloud: CloudProvider = {
  isHere: () => false,

  async read({ files }): Promise<CloudHints> {
    const bytes = await files.read(INSTANCE_DATA, MAX_BYTES);
    return bytes === undefined ? {} : hintsFromCloudInit(bytes);
  },
};

/** @throws CloudHintsError `cloudhints-answer-invalid` */
export function hintsFromCloudInit(bytes: Uint8Array): CloudHints {
  const { v1 } = parseJson(bytes, instanceData);
  if (v1.platform !== NO_CLOUD) return {};
  return parseHints({
    name: v1.local_hostname ?? '',
    address: undefined,
    region: v1.region ?? '',
    zone: v1.availability_zone ?? '',
  });
}
