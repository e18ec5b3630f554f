export const main = {
    namespace: 'tidewatch',
    name: 'Tide alarms',
    description: 'Set an alarm for the next high water of a harbour.',
    version: '4.0.0',
    docs: [ 'https://tidewatch.example/docs/alarms' ],
    termsOfService: 'https://tidewatch.example/terms',
    tags: [ 'tides', 'alarms' ],
    root: 'https://api.tidewatch.example',
    requiredServerParams: [ 'OPENAI_API_KEY' ],
    headers: { 'X-Alarm-Key': '{{OPENAI_API_KEY}}' },
    tools: {
        setAlarm: {
            method: 'POST',
            path: '/alarms',
            description: 'Set an alarm that rings some minutes before the next high water of one harbour.',
            parameters: [
                { position: { key: 'harbourId', value: '{{USER_PARAM}}', location: 'body' }, z: { primitive: 'string()', options: [], description: 'Harbour id as findHarbour returns it' } },
                { position: { key: 'minutes', value: '{{USER_PARAM}}', location: 'body' }, z: { primitive: 'number()', options: [ 'min(1)', 'max(720)' ], description: 'Minutes before high water' } }
            ],
            meta: { isReadOnly: false, isConcurrencySafe: true, isDestructive: false, searchHint: 'tide alarm', aliases: [], alwaysLoad: false },
            tests: [ { _description: 'One hour', harbourId: 'ham', minutes: 60 }, { _description: 'Shortest', harbourId: 'ham', minutes: 1 }, { _description: 'Longest', harbourId: 'rot', minutes: 720 } ],
            output: { mimeType: 'application/json', schema: { type: 'object', properties: { alarmId: { type: 'string' } } } }
        }
    }
}
