"""Conversations in Portuguese."""

from __future__ import annotations

from benchmarks.conversations.scenario import Scenario, Tool, assistant, call, casts, developer, result, system, user

CASTS = casts(
    """
    Mariana Carvalho | João Teixeira | Coimbra | Carvalho Vinhos Lda | +351 239 555 012
    Beatriz Figueiredo | Rui Nogueira | Braga | Minho Seguros SA | +351 253 555 034
    Thiago Albuquerque | Larissa Monteiro | Recife | Litoral Engenharia SA | +55 81 5550 1234
    """
)

SCENARIOS = (
    Scenario(
        "letter",
        (
            system("Escreve cartas para $b, da empresa $org. Assine cada uma com $b."),
            user("Sou $a, de $city. Diga a $b1 que não posso ir na quinta-feira. O meu número é $phone."),
            assistant("Olá, $b,\n\n$a, de $city, não pode ir na quinta-feira. Pode ligar a $a1: $phone."),
            user("Obrigado. Mais curto, e diga que $a pagou na conta $iban."),
        ),
    ),
    Scenario(
        "tools",
        (
            developer("Use as ferramentas. Quem pergunta é $a."),
            user("Quando esteve $b em $city, e qual é o correio eletrónico de $b1?"),
            call('{"name": "$b", "filtro": {"cidade": "$city", "desde": 2021}, "pede": ["$a"]}'),
            result('{"linhas": [{"cliente": "$b", "mail": "$bmail", "nota": "Foi para $city\\n$a ligou.\\tPago."}]}'),
            assistant("$b esteve em $city em março. O endereço é $bmail."),
            user("Envie um lembrete a $b1, com cópia para $mail."),
        ),
        (Tool("procurar_cliente", "Procura um cliente, como $b de $city.", {"name": "Como $b", "cidade": "Cidade"}),),
        {"user": "$mail", "metadata": {"caso": "Queixa de $a", "gestor": "$b"}},
    ),
    Scenario(
        "tables",
        (
            system("Responda com tabelas. São estes os clientes:\n\nnome;cidade\n$a;$city\n$b;$city"),
            user(
                "| Nome | Cidade | Telefone |\n|---|---|---|\n| $a | $city | $phone |\n| **$b** | $city | não |\n\n"
                "Quem não tem telefone?"
            ),
            assistant("| Nome | Motivo |\n|---|---|\n| $b | $b2 não deu o número a $a1 |"),
            user('nome,mail,empresa\n"$b",$bmail,"$org"\n"$a2, $a1",$mail,\n\nQuem trabalha na $org, $A ou $b1?'),
        ),
    ),
    Scenario(
        "code",
        (
            system("Revê programas. Não mude os nomes."),
            user(
                '```python\n# escrito por $a\nCHEFE = "$b"\n\ndef saudar(nome="$a1"):\n    '
                'return f"Olá {nome} de $city"\n```\nMostra {"nome": "$a", "lugar": "/srv/$aslug"}. Porquê?'
            ),
            assistant("`CHEFE` é `$b`, e o valor de `saudar` é `$a1`. Pergunte a $a."),
            user(
                "O registo diz: 2026-03-04 10:22:11 WARN falhou o acesso de $a ($mail) de $city\\n$b ajudou.\nFoi $b?"
            ),
        ),
    ),
    Scenario(
        "mail",
        (
            user(
                "De: $a <$mail>\nPara: $b <$bmail>\nAssunto: Reunião em $city\n\nOlá, $b1,\n\npodemos encontrar-nos em "
                "$city? O meu telefone é $phone.\n\nCumprimentos,\n$a1\n\n> Na segunda, $b escreveu:\n> Cara família "
                "$a2, temos o seu cartão $card."
            ),
            assistant("$a quer encontrar $b em $city, e $b2 tem o cartão $card."),
            user(
                "O mesmo em HTML: <p>Olá, <b>$b</b>,</p><ul><li>$ahtml</li></ul>"
                '<a href="https://example.org/p?q=$aurl">$a</a>. Resuma-o para $b1.'
            ),
        ),
    ),
    Scenario(
        "profile",
        (
            system("Quem escreve é $a, de $city, que trabalha na $org."),
            user('{"perfil": {"nome": "$a", "outros": ["$a1", "$A"], "par": "$b"}, "linhas": "Mora\\n$a\\n$city"}'),
            assistant('{"resumo": "$a e $b moram em $city."}'),
            user("$A ($alow) é a mesma pessoa que $a? E a conta $iban é de $b ou de $a1?"),
        ),
        (),
        {"author": "$a1", "user": "$a", "metadata": {"caso": "de $b"}},
    ),
)
