/**
 * Adds the settings that only a local machine needs to a provisioning file, or to the one in user data for cloud-init:
 *
 *     node own-settings.ts SETTINGS_JSON FILE
 */
import { readFile, writeFile } from 'node:fs/promises';
import { argv } from 'node:process';
import { parse, stringify } from 'yaml';

const [settings = '{}', file = ''] = argv.slice(2);
const add = (json: string): string => JSON.stringify({ ...JSON.parse(json), ...JSON.parse(settings) });
const text = await readFile(file, 'utf8');
if (text.startsWith('#cloud-config')) {
  const userData = parse(text) as { write_files: { content: string }[] };
  for (const each of userData.write_files) each.content = add(each.content);
  await writeFile(file, `#cloud-config\n${stringify(userData)}`);
} else await writeFile(file, add(text));
