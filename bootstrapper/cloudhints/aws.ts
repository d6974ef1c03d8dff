import type { AskMetadata } from './ask-metadata.ts';
import type { CloudProvider } from './cloud-provider.ts';
import { type CloudHints, invalid, parseHints, parseText } from './parse-hints.ts';

/** Seconds for which the token is valid. The agent uses the token at once. */
const TOKEN_SECONDS = '60';
/** A header value: visible ASCII. */
const TOKEN = /^[!-~]{1,1024}$/;

/**
 * Amazon EC2, instance metadata service version 2 (EC2 User Guide, "Access instance metadata for an EC2 instance"). Version 1,
 * without a token, is not used: instances may refuse it.
 */
export const aws: CloudProvider = {
  // Nitro instances name the vendor, Xen instances the BIOS ("4.11.amazon").
  isHere: ({ vendor, biosVersion }) => vendor === 'Amazon EC2' || biosVersion.endsWith('amazon'),

  async read({ ask }): Promise<CloudHints> {
    const headers = { 'x-aws-ec2-metadata-token': await requestToken(ask) };
    const get = async (path: string): Promise<string | undefined> =>
      parseText(await ask({ path: `/latest/meta-data/${path}`, headers }));
    return parseHints({
      name: await get('local-hostname'),
      address: await get('local-ipv4'),
      region: await get('placement/region'),
      zone: await get('placement/availability-zone'),
    });
  },
};

async function requestToken(ask: AskMetadata): Promise<string> {
  const headers = { 'x-aws-ec2-metadata-token-ttl-seconds': TOKEN_SECONDS };
  const token = parseText(await ask({ method: 'PUT', path: '/latest/api/token', headers })) ?? '';
  if (!TOKEN.test(token)) throw invalid('the token cannot be sent in a header');
  return token;
}
