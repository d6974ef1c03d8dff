/** The composition root of the agent: values, their one writer each, workers, and the order of life. */
export { runAgent } from './agent.ts';
export type { AgentOptions, AgentPorts } from './agent-ports.ts';
