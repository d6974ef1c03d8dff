import { describe, expect, test } from '@jest/globals';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PHASES } from '../../../initproto/phases.ts';
import { KILL_MATRIX, KILL_KINDS } from './kill-matrix.ts';

const PROJECT = join(import.meta.dirname, '../../..');
const LISTED = readFileSync(join(PROJECT, '.ci/stories'), 'utf8');

describe('KILL_MATRIX', () => {
  test('has exactly the phases that initproto/phases.ts lists', () => {
    expect(Object.keys(KILL_MATRIX)).toEqual(PHASES.map(({ name }) => name));
  });

  test.each(PHASES)('phase $name has an entry for every kind of kill', ({ name }) => {
    expect(Object.keys(KILL_MATRIX[name])).toEqual([...KILL_KINDS]);
  });

  test.each(KILL_KINDS)('CI runs the story "%s", which fails unless every phase was hit', (strike) => {
    const file = `e2e/cluster/init/${strike}.story.ts`;
    expect(existsSync(join(PROJECT, file))).toBe(true);
    expect(LISTED).toMatch(new RegExp(`^ci \\d+ ${file}$`, 'm'));
    const story = readFileSync(join(PROJECT, file), 'utf8');
    expect(story).toContain(`new KilledPhases('${strike}')`);
    expect(story).toContain('assert.deepEqual(killed.missing(), []');
  });

  test('the story joining-killed fails unless the agent was killed in every phase of a join', () => {
    const file = 'e2e/cluster/join/joining-killed.story.ts';
    expect(LISTED).toMatch(new RegExp(`^(ci|long) \\d+ ${file}$`, 'm'));
    expect(readFileSync(join(PROJECT, file), 'utf8')).toContain('[...EXPECTED, ...JOINING_PHASES].filter(');
  });
});
