import type { CloudProvider } from './cloud-provider.ts';
import { type CloudHints, invalid, parseHints, parseText } from './parse-hints.ts';

const HEADERS = { 'metadata-flavor': 'Google' };
/** "projects/PROJECT_NUMBER/zones/ZONE"; a zone is its region and a letter. */
const ZONE = /^projects\/\d{1,20}\/zones\/(?<zone>(?<region>[a-z0-9-]{1,60})-[a-z])$/;

/** Google Compute Engine (Compute Engine documentation, "View and query VM metadata"). */
export const gcp: CloudProvider = {
  isHere: ({ product }) => product === 'Google Compute Engine',

  async read({ ask }): Promise<CloudHints> {
    const get = async (path: string): Promise<string | undefined> =>
      parseText(await ask({ path: `/computeMetadata/v1/instance/${path}`, headers: HEADERS }));
    return parseHints({
      name: await get('name'),
      address: await get('network-interfaces/0/ip'),
      ...parseGcpZone(await get('zone')),
    });
  },
};

/** @throws CloudHintsError `cloudhints-answer-invalid` */
export function parseGcpZone(text: string | undefined): { readonly region: string; readonly zone: string } {
  const { region, zone } = ZONE.exec(text ?? '')?.groups ?? {};
  if (region === undefined || zone === undefined) throw invalid(`${JSON.stringify(text)} is not a zone`);
  return { region, zone };
}
